"""The `ray` command: what scripts written for Ray call, answered by the `eagleray` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run one command."""
    from eagleray._cli import main as eagleray
    from eagleray._common.version import RAY_VERSION, VERSION

    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"ray, version {RAY_VERSION} (eagleray {VERSION})")
        return
    eagleray.main(arguments)


if __name__ == "__main__":
    main()
