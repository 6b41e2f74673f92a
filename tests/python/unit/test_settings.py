"""Settings from the environment: which name counts, and that the page lists them all."""

import re
from pathlib import Path

import eagleray
from eagleray._common.settings import from_env, is_on

_PACKAGE = Path(eagleray.__file__).parent
_PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
#: Names that a program of ours gives another: nobody else sets them.
_INTERNAL = {"EAGLERAY_ZYGOTE", "EAGLERAY_RAY_PREFIX", "EAGLERAY_RAY_PYTHON"}


def test_our_name_counts_before_the_one_of_programs_written_for_ray(monkeypatch):
    monkeypatch.setenv("RAY_A_SETTING", "theirs")
    assert from_env("A_SETTING") == "theirs"
    monkeypatch.setenv("EAGLERAY_A_SETTING", "ours")
    assert from_env("A_SETTING") == "ours"
    monkeypatch.setenv("EAGLERAY_A_SETTING", "")
    assert from_env("A_SETTING") == "theirs"


def test_a_setting_is_off_by_0_or_false_and_as_decided_where_nobody_says(monkeypatch):
    assert is_on("A_SETTING", default=True)
    assert not is_on("A_SETTING", default=False)
    for off in ("0", "false", "False"):
        monkeypatch.setenv("RAY_A_SETTING", off)
        assert not is_on("A_SETTING", default=True)
    monkeypatch.setenv("EAGLERAY_A_SETTING", "1")
    assert is_on("A_SETTING", default=False)


def test_the_page_of_settings_lists_every_variable_that_is_read():
    read = set()
    for path in _PACKAGE.rglob("*.py"):
        text = path.read_text()
        read |= set(re.findall(r'"((?:EAGLERAY|RAY|TUNE|AIR)_\w+)"', text))
        read |= {f"EAGLERAY_{name}" for name in re.findall(r'\b(?:from_env|is_on|setting)\(\s*"(\w+)"', text)}
    assert len(read) > 20
    page = _PAGE.read_text()
    assert sorted(name for name in read - _INTERNAL if f"`{name}`" not in page) == []
