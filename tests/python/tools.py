"""Programs of the system that tests need: a test without them is skipped with the command that installs them, and fails where CI=true."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

#: Installs what is missing, and knows which package has what.
INSTALLER = Path(__file__).parents[2] / "scripts/test-tools"
#: Tools of administrators are not on everybody's path.
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def path_of(tool):
    """Where the tool is; None if it is not installed."""
    return shutil.which(tool, path=_PATH)


def need(*tools):
    """Skips the test unless all these tools are there."""
    missing = [tool for tool in tools if path_of(tool) is None]
    if missing:
        package_of = packages()
        wanted = " ".join(sorted({package_of[tool] for tool in missing}))
        unavailable(f"{', '.join(missing)} is not installed: apt-get install --yes --no-install-recommends {wanted}")


def packages():
    """The Debian package of each tool."""
    listed = subprocess.run([INSTALLER, "--list"], capture_output=True, text=True, check=True).stdout
    return dict(line.split() for line in listed.splitlines())


def unavailable(why):
    """Skips the test, or fails it where everything is expected to be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true, where nothing may be missing: {why}", pytrace=False)
    pytest.skip(why)


def tool_of_python(tool, distribution):
    """Where a program is that came with Python's developer tools; skips the test if it is not there, as on machines without a build of it."""
    found = shutil.which(tool, path=os.pathsep.join([os.path.dirname(sys.executable), _PATH]))
    if found is None:
        unavailable(f"{tool} is not installed: pip install {distribution}")
    return found
