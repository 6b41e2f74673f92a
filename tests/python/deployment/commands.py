"""The files of `deploy/`, and the calls of `eagleray` in them as its own parser reads them."""

import re
import shlex
import subprocess
from pathlib import Path

from eagleray._cli import main

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
SCRIPTS = sorted([*DEPLOY.rglob("*.sbatch"), *DEPLOY.rglob("*.sh")])


def parsed(arguments):
    """What the command makes of these arguments; fails if it would refuse them or do nothing with one of them."""
    try:
        options = main._parser().parse_args(arguments)
    except SystemExit:
        raise AssertionError(f"eagleray does not take {arguments}") from None
    assert not getattr(options, "ignored", []), f"of no effect: {options.ignored}"
    return options


def calls_in(text):
    """The arguments of each call of `eagleray` in a shell script. Variables stand for numbers, which are good for paths, addresses and times."""
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M).replace("\\\n", " ")
    text = re.sub(r"\$\{[^}]*\}|\$\w+|\$\([^()]*\)", "1", text)
    # "$first:$port" has become "1:1", as "$address" should.
    text = text.replace('--address "1"', '--address "1:1"')
    found = []
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if "eagleray" in words:
            call = words[words.index("eagleray") + 1 :]
            ends = [at for at, word in enumerate(call) if word in ("<", ">", "|", "&", "2>", "&&", "||")]
            found.append(call[: ends[0]] if ends else call)
    return found


def tracked(*patterns):
    """Files of the repository that git knows or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines()]
