"""Packages of folders, files and archives: what is in them, and what they are named after."""

import io
import os
import stat
import subprocess
import sys
import threading
import zipfile

import pytest

from eagleray.runtime_env import RuntimeEnv, packages, packing, unpacking, usable
from eagleray.runtime_env.ignoring import Patterns


def packed(path, excludes=(), field="working_dir"):
    return packing.packed(str(path), packing.entries(str(path), excludes, field=field))


def names(path, excludes=(), field="working_dir"):
    with zipfile.ZipFile(io.BytesIO(packed(path, excludes, field))) as archive:
        return archive.namelist()


def fill(folder, *files):
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"of {name}")
    return folder


class TestContent:
    def test_the_same_content_makes_the_same_bytes(self, tmp_path):
        one = fill(tmp_path / "one", "b.py", "a/c.py", "a/b.py")
        other = fill(tmp_path / "other", "a/b.py", "a/c.py", "b.py")
        os.utime(other / "b.py", (1, 1))
        (other / "a").chmod(0o700)
        assert packed(one) == packed(other)
        assert names(one) == ["a/b.py", "a/c.py", "b.py"]

    def test_content_names_and_the_right_to_run_tell_packages_apart(self, tmp_path):
        folder = fill(tmp_path / "f", "a.py")
        seen = {packed(folder)}
        (folder / "a.py").write_text("other")
        seen.add(packed(folder))
        (folder / "a.py").chmod(0o755)
        seen.add(packed(folder))
        (folder / "a.py").rename(folder / "b.py")
        seen.add(packed(folder))
        (folder / "empty").mkdir()
        seen.add(packed(folder))
        assert len(seen) == 5

    def test_another_interpreter_makes_the_same_bytes(self, tmp_path):
        folder = fill(tmp_path / "f", *(f"{at}.py" for at in range(20)))
        code = (
            "import sys, hashlib; from eagleray.runtime_env import packing as p;"
            "print(hashlib.sha256(p.packed(sys.argv[1], p.entries(sys.argv[1], (), field='working_dir'))).hexdigest())"
        )
        runs = [[sys.executable, "-c", code, str(folder)] for _ in range(2)]
        outs = {
            subprocess.check_output(run, env={**os.environ, "PYTHONHASHSEED": seed})
            for run, seed in zip(runs, "12", strict=True)
        }
        assert len(outs) == 1

    def test_what_nobody_wants_elsewhere_stays_out(self, tmp_path, monkeypatch):
        folder = fill(tmp_path, "a.py", ".git/x", "venv/x", ".venv/x", "sub/__pycache__/a.pyc", "sub/b.py")
        assert names(folder) == ["a.py", "sub/b.py"]
        monkeypatch.setenv("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES", "sub")
        assert names(folder) == [".git/x", ".venv/x", "a.py", "venv/x"]
        monkeypatch.setenv("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES", "")
        assert len(names(folder)) == 6

    def test_excludes_are_patterns_of_the_top(self, tmp_path):
        folder = fill(tmp_path, "a.py", "a.log", "sub/a.log", "sub/data/x", "data/x", "sub/deep/data/x")
        assert names(folder, ["*.log", "/data/"]) == ["a.py", "sub/data/x", "sub/deep/data/x"]
        assert names(folder, ["sub/data", "a.*"]) == ["data/x", "sub/deep/data/x"]

    # proves: L2n
    def test_ignore_files_count_where_they_stand(self, tmp_path, monkeypatch):
        folder = fill(tmp_path, "a.py", "b.txt", "sub/b.txt", "sub/c.txt", "other/c.txt")
        (folder / ".gitignore").write_text("# words\n/b.txt\n\n")
        (folder / "sub" / ".rayignore").write_text("c.txt")
        assert names(folder) == [".gitignore", "a.py", "other/c.txt", "sub/.rayignore", "sub/b.txt"]
        monkeypatch.setenv("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "1")
        assert "b.txt" in names(folder)
        assert "sub/c.txt" not in names(folder)

    def test_links_are_followed_but_not_round_in_circles(self, tmp_path):
        elsewhere = fill(tmp_path / "elsewhere", "far.py")
        folder = fill(tmp_path / "f", "a.py", "sub/b.py")
        (folder / "linked").symlink_to(elsewhere)
        (folder / "a2.py").symlink_to(folder / "a.py")
        (folder / "sub" / "up").symlink_to(folder)
        (folder / "nothing").symlink_to(tmp_path / "nowhere")
        assert names(folder) == ["a.py", "a2.py", "linked/far.py", "sub/b.py"]

    def test_what_is_no_file_stays_out(self, tmp_path):
        os.mkfifo(fill(tmp_path, "a.py") / "pipe")
        assert names(tmp_path) == ["a.py"]

    def test_a_file_that_cannot_be_read_is_named(self, tmp_path):
        # Root may read everything, but not this.
        (fill(tmp_path, "a.py") / "broken.bin").symlink_to("/proc/self/mem")
        with pytest.raises(OSError, match=r"broken\.bin cannot be packed: .*Leave it out by runtime_env"):
            packed(tmp_path)
        assert names(tmp_path, ["*.bin"]) == ["a.py"]

    def test_a_name_that_is_no_text_is_told(self, tmp_path):
        open(os.path.join(os.fsencode(tmp_path), b"\xff.py"), "w").close()
        with pytest.raises(ValueError, match="its name is not text"):
            packed(tmp_path)

    def test_a_module_keeps_its_name(self, tmp_path):
        folder = fill(tmp_path / "module", "__init__.py", "sub/a.py")
        assert names(folder, field="py_modules") == ["module/__init__.py", "module/sub/a.py"]
        assert names(folder, ["/sub"], field="py_modules") == ["module/__init__.py"]
        assert names(folder / "__init__.py", field="py_modules") == ["__init__.py"]
        with pytest.raises(ValueError, match="needs a name"):
            packing.entries("/", (), field="py_modules")

    @pytest.mark.parametrize("field", ["working_dir", "py_modules"])
    def test_what_is_neither_a_folder_nor_a_package_is_refused(self, tmp_path, field):
        for name in ("nowhere", "a.txt"):
            with pytest.raises(ValueError, match=rf"{name} must be an existing directory or a"):
                packing.entries(str(fill(tmp_path, "a.txt") / name), (), field=field)

    # proves: L2n
    def test_a_limit_names_the_largest_files(self, tmp_path, monkeypatch):
        for at in range(9):
            (tmp_path / f"{at}.bin").write_bytes(bytes(at << 20))
        monkeypatch.setenv("RAY_max_grpc_message_size", str(36 << 20))
        packing.entries(str(tmp_path), (), field="working_dir")
        monkeypatch.setenv("RAY_max_grpc_message_size", str(35 << 20))
        said = r"Package size \(36\.00MiB\) exceeds the maximum size of 35\.00MiB: .*The largest files are 8\.bin \(8\.00MiB\), 7\.bin"
        with pytest.raises(ValueError, match=said):
            packing.entries(str(tmp_path), (), field="working_dir")
        packing.entries(str(tmp_path), ["8.bin"], field="working_dir")


class TestArchives:
    def write(self, path, **files):
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        return path

    def test_an_archive_travels_as_it_is(self, tmp_path):
        path = self.write(tmp_path / "a.zip", **{"a.py": "1"})
        assert packed(path) == path.read_bytes()
        assert packed(path, field="py_modules") == path.read_bytes()

    @pytest.mark.parametrize("name", ["../up.py", "/etc/top.py", "a/../../up.py"])
    def test_one_that_writes_elsewhere_is_refused_on_both_sides(self, tmp_path, name):
        path = self.write(tmp_path / "a.zip", **{"fine.py": "", name: ""})
        with pytest.raises(ValueError, match=r"a\.zip is no zip package that can be used: it names a file outside"):
            packed(path)
        with pytest.raises(ValueError, match="it names a file outside"):
            unpacking.extract(path.read_bytes(), tmp_path / "out")
        assert not list((tmp_path / "out").iterdir())

    def test_what_is_no_zip_is_refused(self, tmp_path):
        (tmp_path / "a.zip").write_text("words")
        with pytest.raises(ValueError, match=r"a\.zip is no zip package that can be used: File is not a zip file"):
            packed(tmp_path / "a.zip")

    def test_a_small_archive_of_large_files_meets_the_limit(self, tmp_path, monkeypatch):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("zeros.bin", bytes(2 << 20))
        monkeypatch.setenv("RAY_max_grpc_message_size", str(1 << 20))
        with pytest.raises(ValueError, match=r"exceeds the maximum .*zeros\.bin \(2\.00MiB\)"):
            packed(tmp_path / "a.zip")

    def test_what_was_packed_comes_out_again(self, tmp_path):
        folder = fill(tmp_path / "in", "a.py", "sub/run.sh", "ü/ö.txt")
        (folder / "sub" / "run.sh").chmod(0o755)
        (folder / "empty").mkdir()
        size = unpacking.extract(packed(folder), tmp_path / "out")
        out = tmp_path / "out"
        assert (out / "ü" / "ö.txt").read_text() == "of ü/ö.txt"
        assert stat.S_IMODE((out / "sub" / "run.sh").stat().st_mode) == 0o755
        assert stat.S_IMODE((out / "a.py").stat().st_mode) == 0o644
        assert (out / "empty").is_dir()
        assert size == sum(path.stat().st_size for path in out.rglob("*") if path.is_file())


class TestNames:
    def test_a_package_is_cut_into_parts_and_a_list_of_them(self, monkeypatch):
        monkeypatch.setattr(packages, "PART_BYTES_MAX", 10)
        name, bodies = packages.cut(bytes(range(25)))
        assert b"".join(bodies[:-1]) == bytes(range(25))
        assert [len(body) for body in bodies] == [10, 10, 5, 3 * packages.ID_BYTES]
        assert packages.cut(bytes(range(25)))[0] == name != packages.cut(bytes(24))[0]
        assert packages.URI.fullmatch(packages.uri(name))[1] == name

    def test_paths_stay_what_they_were_when_the_program_moves(self, tmp_path, monkeypatch):
        fill(tmp_path, "here/a.py", "module.py")
        monkeypatch.chdir(tmp_path / "here")
        env = usable({"working_dir": ".", "py_modules": ["../module.py", threading, f"file://{tmp_path}/module.py"]})
        assert env["working_dir"] == str(tmp_path / "here")
        assert env["py_modules"] == [str(tmp_path / "module.py"), threading.__file__, str(tmp_path / "module.py")]

    @pytest.mark.parametrize("given", ["s3://bucket/a.zip", "https://host/a.zip", "gs://bucket/a.zip", "gcs://a.zip"])
    def test_what_lies_elsewhere_is_refused(self, given):
        for env in ({"working_dir": given}, {"py_modules": [given]}):
            RuntimeEnv(**env)
            with pytest.raises(NotImplementedError, match="Download it, and give the path"):
                usable(env)

    @pytest.mark.parametrize(
        ("env", "text"),
        [
            ({"working_dir": 1}, "'working_dir'.*must be a str or Path.*int"),
            ({"py_modules": "a"}, "'py_modules'.*must be a list.*str"),
            ({"py_modules": [1]}, "'py_modules'.*must be a list.*contains 1"),
            ({"excludes": "a"}, "'excludes'.*must be of type List"),
            ({"excludes": [1]}, "'excludes'.*must be of type List"),
        ],
    )
    def test_what_is_of_a_wrong_kind_is_refused(self, env, text):
        with pytest.raises(TypeError, match=text):
            RuntimeEnv(**env)

    def test_a_module_without_files_is_refused(self):
        with pytest.raises(ValueError, match="has no single file or folder"):
            usable({"py_modules": [sys]})


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("a", ["a", "b/a", "a/b", "b/a/c"], ["ab", "ba"]),
        ("/a", ["a", "a/b"], ["b/a"]),
        ("a/b", ["a/b", "a/b/c"], ["c/a/b"]),
        ("a/", ["a/b", "c/a/b"], ["a", "b/a"]),
        ("*.py", ["a.py", "b/.py"], ["a.pyc"]),
        ("a*/b", ["a/b", "ab/b"], ["a/c/b"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("[a-c]x", ["ax", "d/cx"], ["dx", "/x"]),
        ("[!a]x", ["bx"], ["ax"]),
        ("[]a]x", ["]x", "ax"], ["bx"]),
        ("**/a", ["a", "b/c/a"], ["ba"]),
        ("a/**", ["a/b", "a/b/c"], ["a"]),
        ("a/**/b", ["a/b", "a/c/d/b"], ["ab"]),
        ("\\#a", ["#a"], ["a"]),
        ("\\!a", ["!a"], ["a"]),
        ("a  ", ["a"], ["a  "]),
        ("a\\ ", ["a "], ["a"]),
        ("a.b+(c)", ["a.b+(c)"], ["axb+(c)"]),
        ("[", ["["], ["a"]),
        ("#a", [], ["a", "#a"]),
        ("", [], ["", "a"]),
        ("/", [], ["a"]),
    ],
)
def test_a_pattern_means_what_it_does_to_git(pattern, matched, others):
    patterns = Patterns([pattern + "\n"])
    assert [path for path in matched + others if patterns.match(path)] == matched


def test_the_last_pattern_that_matches_decides():
    patterns = Patterns(["*.log", "!keep.log", "sub/", "!sub/keep"])
    assert [path for path in ("a.log", "keep.log", "sub/a", "sub/keep") if patterns.match(path)] == ["a.log", "sub/a"]
    # There may be something in it.
    assert not patterns.match_folder("sub")
    assert Patterns(["sub/"]).match_folder("sub")


class TestUnpacking:
    @pytest.fixture
    def node(self, tmp_path, monkeypatch):
        """What a node knows: bodies by their ids."""
        bodies = {}
        monkeypatch.setattr(unpacking, "_USED", {})
        native = unpacking._native
        fake = type("Native", (), {"body_id": staticmethod(native.body_id), "fetch": staticmethod(bodies.get)})
        fake.identity = staticmethod(lambda: {"session_dir": str(tmp_path / "session"), "node_id": "0" * 56})
        monkeypatch.setattr(unpacking, "_native", fake)
        monkeypatch.setattr("eagleray._errors.imports.here", lambda: "1.2.3.4")

        def keep(folder):
            name, parts = packages.cut(packed(folder, field="py_modules"))
            bodies.update({native.body_id(part): part for part in parts})
            return name

        keep.bodies = bodies
        return keep

    def release(self):
        while unpacking._USED:
            os.close(unpacking._USED.popitem()[1])

    def test_it_is_unpacked_once(self, tmp_path, node):
        name = node(fill(tmp_path / "m", "a.py"))
        working, found = unpacking.folders({"working_dir": name, "py_modules": f"{name}"})
        assert [working, *found] == [working] * 3
        assert os.listdir(working) == ["m"]
        self.release()
        node.bodies.clear()
        assert unpacking.folders({"working_dir": name})[0] == working
        self.release()

    def test_what_was_left_half_done_is_done_again(self, tmp_path, node):
        name = node(fill(tmp_path / "m", "a.py"))
        place = tmp_path / "session" / unpacking._PLACE
        fill(place / f"{name}.part", "m/half.py")
        (folder,) = unpacking.folders({"py_modules": name})[1]
        assert os.listdir(os.path.join(folder, "m")) == ["a.py"]
        self.release()

    def test_what_is_missing_or_damaged_is_an_error_with_the_node_named(self, tmp_path, node):
        from eagleray.exceptions import RuntimeEnvSetupError

        name = node(fill(tmp_path / "m", "a.py"))
        body = next(iter(node.bodies))
        node.bodies[body] = b"other"
        with pytest.raises(RuntimeEnvSetupError, match=r"\[Node 1\.2\.3\.4\] The package .* has come damaged"):
            unpacking.folders({"working_dir": name})
        del node.bodies[body]
        with pytest.raises(RuntimeEnvSetupError, match=r"\[Node 1\.2\.3\.4\] The package .* was never sent"):
            unpacking.folders({"working_dir": name})
        place = tmp_path / "session" / unpacking._PLACE
        assert sorted(path.suffix for path in place.iterdir()) == [".lock", ".making"]

    def test_what_nobody_uses_makes_room(self, tmp_path, node, monkeypatch):
        monkeypatch.setenv("RAY_RUNTIME_ENV_WORKING_DIR_CACHE_SIZE_GB", str(250 / 2**30))
        made = []
        for at in range(4):
            folder = tmp_path / f"m{at}"
            folder.mkdir()
            (folder / "a.bin").write_bytes(bytes(100))
            made.append(node(folder))
        place = tmp_path / "session" / unpacking._PLACE
        unpacking.folders({"working_dir": made[0]})
        unpacking.folders({"working_dir": made[1]})
        os.close(unpacking._USED.pop(made[1]))
        unpacking.folders({"working_dir": made[2]})
        # The first is older, but used.
        assert [(place / name).is_dir() for name in made] == [True, False, True, False]
        self.release()
        unpacking.folders({"working_dir": made[3]})
        assert [(place / name).is_dir() for name in made] == [False, False, True, True]
        assert unpacking.folders({"working_dir": made[0]})[0] == str(place / made[0])
        assert (place / made[0] / "m0" / "a.bin").exists()
        self.release()

    def test_who_comes_meanwhile_waits_and_then_goes_on(self, tmp_path, node, monkeypatch):
        name = node(fill(tmp_path / "m", "a.py"))
        fetch = unpacking._native.fetch
        begun, go_on = threading.Event(), threading.Event()

        def slow(body_id):
            begun.set()
            assert go_on.wait(20)
            return fetch(body_id)

        monkeypatch.setattr(unpacking._native, "fetch", staticmethod(slow))
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(unpacking.folders({"working_dir": name})[0])) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        assert begun.wait(20)
        go_on.set()
        for thread in threads:
            thread.join(20)
        assert found == [found[0]] * 4
