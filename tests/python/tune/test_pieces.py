"""Folders that travel in pieces."""

import os

import pytest

from eagleray.tune._pieces import Arriving, Unpacking, pack

LIMIT = 1000


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "inner" / "empty").mkdir(parents=True)
    (folder / "large").write_bytes(bytes(range(256)) * 20)
    (folder / "none").touch()
    (folder / "inner" / "run").write_text("#!/bin/sh\n")
    (folder / "inner" / "run").chmod(0o755)
    (folder / "link").symlink_to("inner/run")
    (folder / "away").symlink_to("/nowhere")
    (folder / "folder").symlink_to("inner")
    return folder


def content(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        else:
            found[name] = (path.stat().st_mode & 0o777, path.read_bytes() if path.is_file() else None)
    return found


def test_a_folder_arrives_as_it_was(source, tmp_path):
    pieces = list(pack(str(source), LIMIT))
    assert len(pieces) > 5
    assert all(sum(len(step[1]) for step in piece if step[0] == "bytes") <= LIMIT for piece in pieces)
    arriving = Arriving(tmp_path / "target")
    for piece in pieces:
        arriving.take(piece)
        assert not (tmp_path / "target").exists()
    arriving.finish()
    assert content(tmp_path / "target") == content(source)
    assert sorted(os.listdir(tmp_path)) == ["source", "target"]


def test_what_is_in_the_way_is_replaced(source, tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "old").touch()
    (tmp_path / "target.part").mkdir()
    (tmp_path / "target.part" / "older").touch()
    arriving = Arriving(tmp_path / "target")
    for piece in pack(str(source), LIMIT):
        arriving.take(piece)
    arriving.finish()
    assert content(tmp_path / "target") == content(source)


def test_half_of_a_folder_leaves_nothing(source, tmp_path):
    arriving = Arriving(tmp_path / "target")
    arriving.take(next(pack(str(source), LIMIT)))
    arriving.drop()
    assert os.listdir(tmp_path) == ["source"]


def test_what_lacks_a_piece_is_not_put_in_place(source, tmp_path):
    arriving = Arriving(tmp_path / "target")
    with pytest.raises(FileNotFoundError):
        arriving.take([("file", "missing/file", 0o644)])
    with pytest.raises(OSError, match="a part of .*target could not be written"):
        arriving.take(next(pack(str(source), LIMIT)))
    with pytest.raises(OSError, match="a part of .*target could not be written"):
        arriving.finish()
    arriving.drop()
    assert os.listdir(tmp_path) == ["source"]


def test_an_empty_folder_is_a_piece(tmp_path):
    (tmp_path / "source").mkdir()
    assert list(pack(str(tmp_path / "source"), LIMIT)) == [[]]


def test_files_are_written_over_or_behind_those_that_are_there(source, tmp_path):
    target = tmp_path / "target"
    for _ in range(2):
        unpacking = Unpacking(target)
        for piece in pack(str(source), LIMIT, skipped=("large",), appended=("inner/run",)):
            unpacking.take(piece)
        unpacking.close()
    assert (target / "inner" / "run").read_text() == "#!/bin/sh\n" * 2
    assert not (target / "large").exists()
    assert content(target)["away"] == "/nowhere"
