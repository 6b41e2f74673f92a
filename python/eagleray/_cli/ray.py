"""The `ray` command: what scripts written for Ray call, answered by the `eagleray` command."""

from __future__ import annotations

import sys

#: Options of Ray's commands that have nothing to change here, since there are no ports, no dashboard and no statistics, and one way to stop. The
#: number says whether a value comes with it.
_WITHOUT_EFFECT = {
    "start": {
        "--port": 1,
        "--node-ip-address": 1,
        "--node-manager-port": 1,
        "--object-manager-port": 1,
        "--min-worker-port": 1,
        "--max-worker-port": 1,
        "--worker-port-list": 1,
        "--ray-client-server-port": 1,
        "--metrics-export-port": 1,
        "--include-dashboard": 1,
        "--dashboard-host": 1,
        "--dashboard-port": 1,
        "--dashboard-agent-listen-port": 1,
        "--dashboard-agent-grpc-port": 1,
        "--disable-usage-stats": 0,
        "--no-redirect-output": 0,
    },
    "stop": {"--force": 0, "-f": 0, "--grace-period": 1, "-g": 1},
    "status": {"--address": 1},
    "memory": {"--address": 1},
}


def without_those(arguments: list[str]) -> list[str]:
    """Leave out what has no effect here."""
    known = _WITHOUT_EFFECT.get(arguments[0], {}) if arguments else {}
    kept = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, _ = argument.partition("=")
        if name not in known:
            kept.append(argument)
        elif known[name] and not equals:
            next(rest, None)
    return kept


def main() -> None:
    """Run one command."""
    from eagleray._cli import main as eagleray
    from eagleray._common.version import RAY_VERSION, VERSION

    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"ray, version {RAY_VERSION} (eagleray {VERSION})")
        return
    eagleray.main(without_those(arguments))


if __name__ == "__main__":
    main()
