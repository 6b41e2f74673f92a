"""`eagleray status`: the nodes of a cluster, what they have and what is in use, and what runs on the node that is asked."""

from __future__ import annotations

import json
import os
from typing import Any

from eagleray._cli import values
from eagleray._common import amounts

#: Nodes that are gone, as they are shown: the newest.
_GONE_MAX = 10


def add_parser(commands: Any) -> None:
    """Add the command."""
    status = commands.add_parser(
        "status",
        help="show nodes, resources, processes, actors",
        description="Show the cluster of this user's daemon, or else the node that the newest program hosts: nodes and resources, what waits "
        "for some, nodes that are gone; and of the node that is asked, processes and actors.",
    )
    status.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also memory of each process's own, who waits for what, and since when",
    )
    status.add_argument(
        "--decisions", action="store_true", help="also what the head sent to which node lately, and why there"
    )
    status.add_argument("--json", action="store_true", help="as JSON")
    status.add_argument(
        "--watch", action="store_true", help="show what waits, and again whenever that changes, until Ctrl-C"
    )
    status.add_argument(
        "--probe",
        action="store_true",
        help="for programs: say in one line whether a node started by you answers; exit status 0 if it does, else 1",
    )
    status.add_argument(
        "--nodes",
        type=int,
        metavar="N",
        help="with --probe: and whether its cluster has so many nodes, drivers' own left out",
    )
    status.add_argument(
        "--wait", type=values.seconds, default=0.0, metavar="SECONDS", help="with --probe: give it so long (0)"
    )
    add_address(status)
    status.set_defaults(run=_status, parser=status)


def add_address(parser: Any) -> None:
    """Add the option that says which node is meant."""
    parser.add_argument(
        "--address", help="another node of yours on this machine: HOST:PORT, or what its program's init() returned"
    )


def find_node(options: Any) -> str:
    """Find the node that is meant, and say where it listens."""
    from eagleray._node import finding
    from eagleray._node.addresses import Address

    found = finding.find_node(options.address) or finding.newest_program()
    if found is None:
        raise ConnectionError("no node of yours is running; start one with `eagleray start --head`")
    if isinstance(found, Address):
        raise ConnectionError(f"no node of yours on this machine belongs to the cluster at {found}: ask where one runs")
    return found.path


def _status(options: Any) -> int:
    from eagleray._node import facts, finding

    if options.probe:
        from eagleray._cli import probe

        return probe.probe(options.address, options.nodes, options.wait)
    if options.nodes is not None or options.wait:
        options.parser.error("--nodes and --wait go with --probe")
    if options.watch:
        from eagleray._cli import waits

        return waits.watch(find_node(options), as_json=options.json)
    path = find_node(options)
    status = finding.ask(path, "status")
    if options.json:
        print(json.dumps(status, indent=2))
        return 0
    nodes = status.get("nodes", [])
    alive = [node for node in nodes if node["alive"]]
    is_cluster = any(node["address"] for node in nodes)
    about = facts.of_session(os.path.dirname(path))
    # One that is alone has an id that only its own processes know.
    own = nodes[0]["node_id"] if about is None and nodes else about and about.node_id
    if is_cluster:
        _show_nodes(nodes, own)
    else:
        print(f"Node (pid {status['pid']})")
    _show_resources(status, [node for node in alive if node["node_id"] != own])
    _show_demand(nodes)
    _show_infeasible(status.get("infeasible", []))
    if options.decisions:
        _show_decisions(status.get("decisions", []))
    _show_gone([node for node in nodes if not node["alive"]])
    if is_cluster:
        print(f"On the node with pid {status['pid']}:")
    _show_processes(status, is_verbose=options.verbose)
    return 0


def _show_nodes(nodes: list[dict[str, Any]], own: str | None) -> None:
    alive = [node for node in nodes if node["alive"]]
    print(f"Nodes ({len(alive)}):")
    for node in sorted(alive, key=lambda node: int(node["number"])):
        role = "head" if node["is_head"] else "a driver's" if node["is_guest"] else "node"
        labels = ",".join(f"{name}={value}" for name, value in node["labels"].items())
        used = ", ".join(
            _used(name, total, node["free"].get(name, 0)) for name, total in node["total"].items() if _is_shown(name)
        )
        here = "*" if node["node_id"] == own else " "
        words = [
            f"{node['number']:>3}",
            f"{role:<10}",
            f"{node['address'] or 'dials only':<21}",
            node["name"],
            used,
            labels,
        ]
        print(f" {here}{'  '.join(word for word in words if word)}")


def _is_shown(name: str) -> bool:
    return not name.startswith("node:")


def _used(name: str, total: int, free: int) -> str:
    scale, unit = (2**30, " GiB") if name == "memory" else (amounts.PARTS, "")
    return f"{name} {(total - free) / scale:g}/{total / scale:.4g}{unit}"


def _show_resources(status: dict[str, Any], others: list[dict[str, Any]]) -> None:
    totals, free = dict(status["total"]), dict(status["free"])
    for node in others:
        for into, of in ((totals, node["total"]), (free, node["free"])):
            for name, amount in of.items():
                into[name] = into.get(name, 0) + amount
    print("Resources (used / total):")
    for name, total in sorted(totals.items()):
        if _is_shown(name):
            used = total - free.get(name, 0)
            scale, unit = (2**30, " GiB") if name == "memory" else (amounts.PARTS, "")
            print(f"  {name:<22} {used / scale:g} / {total / scale:.4g}{unit}")
    where = " (here)" if others else ""
    print(
        f"  {'object store' + where:<22} {status['store_used'] / 2**20:.1f} / {status['store_capacity'] / 2**20:.1f} MiB"
    )
    copies, kept = status["copies"], status["kept_for_others"]
    if copies or kept:
        print(f"  {'':<22} {copies} copies of values of other nodes, {kept} values kept for other nodes")


def _show_demand(nodes: list[dict[str, Any]]) -> None:
    """Show what waits for resources, by what it asks for."""
    wanted: dict[str, int] = {}
    for node in nodes:
        for need, count in node["waiting"]:
            text = ", ".join(f"{name} {amounts.shown(name, amount):g}" for name, amount in need.items()) or "nothing"
            wanted[text] = wanted.get(text, 0) + count
    if wanted:
        print("Demand:")
        for text, count in sorted(wanted.items()):
            print(f"  {count} x {text}")


def _show_infeasible(lines: list[str]) -> None:
    if lines:
        print("Infeasible: no node can ever hold")
        for line in lines:
            print(f"  {line}")


def _show_decisions(decisions: list[dict[str, Any]]) -> None:
    """Show what the head has decided, the latest last."""
    print(f"Decisions ({len(decisions)}):")
    for one in decisions:
        print(
            f"  {one['ago_ms'] / 1_000:>9.3f} s ago  {one['count']} x {one['what']}: node {one['from']} -> node {one['to']}, {one['why']}"
        )


def _show_gone(gone: list[dict[str, Any]]) -> None:
    gone = [node for node in gone if not node["is_guest"]]
    if gone:
        print(f"Gone ({len(gone)}):")
        for node in gone[-_GONE_MAX:]:
            print(f"  node {node['number']} at {node['address']} ({node['name']}): {node['gone']}")


def _show_processes(status: dict[str, Any], *, is_verbose: bool) -> None:
    print(f"Processes ({len(status['processes'])}):")
    for pid, role, waiting in status["processes"]:
        own = f"{status['own_bytes'].get(pid, 0) / 1e6:>9.1f} MB  " if is_verbose else ""
        print(f"  {pid:>8}  {own}{role}")
        if is_verbose:
            for who, what, waited_ms in waiting:
                print(f"            {who} waits for {what}, {waited_ms / 1000:.1f} s")
    if status["actors"]:
        print(f"Actors ({len(status['actors'])}):")
        for actor_id, class_name, name, state, pid in status["actors"]:
            print(f"  {actor_id}  {class_name:<20} {name:<16} {state:<10} {pid or '-'}")
    if is_verbose:
        print(f"Waiting for resources ({len(status['waiting'])}):")
        for who, what, waited_ms in status["waiting"]:
            print(f"  {who}: {what}, {waited_ms / 1000:.1f} s")
