"""`eagleray token`: which secrets let nodes into this user's cluster, or into one that is to be. It shows names and files, never what they are."""

from __future__ import annotations

import argparse
import os
import re
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagleray._node.facts import Facts

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def add_parser(commands: Any) -> None:
    """Add the command."""
    token = commands.add_parser(
        "token",
        help="list, replace or make ahead the token that lets nodes into your cluster",
        description="The token is in a file of the head, which `eagleray start --head` has named. Whoever knows it can join the cluster.",
    )
    actions = token.add_subparsers(title="actions", metavar="ACTION", required=True)
    new = actions.add_parser(
        "new",
        help="make the secrets of a cluster before it has a head",
        description="Make the secrets of a new cluster in a folder. `eagleray start --head --secrets FOLDER` founds it with them. The file "
        "`token` there is for the nodes that join; `authority` and `tokens` are for the head alone.",
    )
    new.add_argument("folder", metavar="FOLDER", help="for the files of secrets; made if it is not there")
    new.set_defaults(run=_new, parser=new)
    listing = actions.add_parser("list", help="show which tokens are valid, by name, and where the newest lies")
    listing.set_defaults(run=_list, parser=listing)
    rotate = actions.add_parser(
        "rotate",
        help="make a new token",
        description="Make a new token. Nodes that belong to the cluster stay; the former tokens let others in for a while yet.",
    )
    rotate.add_argument(
        "--grace",
        type=_seconds,
        default=3600,
        metavar="TIME",
        help="how long those are valid yet: 0, 90s, 15m, 1h (1h)",
    )
    rotate.set_defaults(run=_rotate, parser=rotate)
    for parser in (listing, rotate):
        parser.add_argument("--address", metavar="HOST:PORT", help="of your head on this machine, where several run")


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d{1,9})([smhd]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 90s, 15m or 1h")
    return int(found[1]) * _UNITS[found[2]]


def _head(address: str | None) -> tuple[Facts, str]:
    """Find the head that is meant, and the folder of its secrets."""
    from eagleray._node import addresses, finding

    known = finding.daemons() if address is None else finding.of_cluster(addresses.parse(address))
    heads = [each for each in known if each.token_file is not None and each.is_process()]
    if not heads:
        raise ConnectionError(
            "no head of yours runs on this machine: tokens are kept where `eagleray start --head` was called"
        )
    if len(heads) > 1 and address is None:
        raise ValueError(
            f"several heads of yours run: say --address, one of {', '.join(str(each.address) for each in heads)}"
        )
    return heads[0], os.path.dirname(heads[0].token_file or "")


def _new(options: Any) -> int:
    from eagleray._node import tokens

    file = tokens.new_secrets(options.folder)
    print(f"The secrets of a new cluster are in {options.folder}; start its head with --secrets {options.folder}")
    print(f"The token is in {file}; whoever knows it can join, and run what they like as you.")
    return 0


def _list(options: Any) -> int:
    from eagleray import _native

    head, folder = _head(options.address)
    for name, made, until in _native.list_tokens(folder):
        end = (
            "valid until it is replaced"
            if until is None
            else f"{'expired' if until <= time.time() else 'valid until'} {_time(until)}"
        )
        print(f"{name}  made {_time(made)}  {end}")
    print(f"The newest is in {head.token_file}")
    return 0


def _rotate(options: Any) -> int:
    from eagleray import _native

    head, folder = _head(options.address)
    _native.rotate_token(folder, options.grace)
    former = f"are valid until {_time(time.time() + options.grace)}" if options.grace else "have expired"
    print(f"A new token is in {head.token_file}; the former ones {former}.")
    return 0


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
