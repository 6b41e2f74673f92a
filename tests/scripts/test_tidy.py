"""The checks of taste find what they are for, and nothing else."""

import subprocess

import pytest

import tidy
import tours


@pytest.fixture
def tree(tmp_path):
    """Writes files into an empty project and reads them as a tree."""

    def write(files: dict[str, str]) -> tidy.Tree:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tidy.Tree(tmp_path)

    return write


def crate(name: str, *dependencies: str, kind: str = "dependencies") -> dict[str, str]:
    lines = "\n".join(f"{dependency}.workspace = true" for dependency in dependencies)
    return {f"crates/{name}/Cargo.toml": f'[package]\nname = "eagleray-{name}"\n[{kind}]\n{lines}\n'}


def workspace(*names: str) -> dict[str, str]:
    lines = "\n".join(f'{name} = {{ package = "eagleray-{name}", path = "crates/{name}" }}' for name in names)
    return {"Cargo.toml": f'[workspace]\n[workspace.dependencies]\n{lines}\npyo3 = "0.30"\nlibc = "0.2"\n'}


def said(findings) -> list[str]:
    return [str(finding) for finding in findings]


def test_an_empty_project_is_in_order(tree):
    assert tidy.check(tree({})) == []


def test_arrows_that_follow_the_map_are_silent(tree):
    files = workspace("model", "wire", "owner") | crate("model") | crate("wire", "model") | crate("owner", "model")
    assert said(tidy.arrows(tree(files | crate("runtime", "wire", "owner", "libc")))) == []


@pytest.mark.parametrize(
    ("name", "dependency"),
    [("model", "wire"), ("owner", "wire"), ("wire", "owner"), ("store", "net"), ("node", "runtime")],
)
def test_an_arrow_against_the_map_is_found(tree, name, dependency):
    files = workspace(name, dependency) | crate(dependency) | crate(name, dependency)
    (finding,) = said(tidy.arrows(tree(files)))
    assert finding.startswith(f"crates/{name}/Cargo.toml: `{name}` may not depend on `{dependency}`")


def test_test_dependencies_follow_the_same_arrows(tree):
    files = workspace("owner", "net") | crate("net") | crate("owner", "net", kind="dev-dependencies")
    assert len(said(tidy.arrows(tree(files)))) == 1


def test_a_crate_outside_the_map_is_found(tree):
    assert "has no place" in said(tidy.arrows(tree(crate("helpers"))))[0]


def test_only_the_python_crate_binds_python(tree):
    files = workspace() | crate("python", "pyo3") | crate("runtime", "pyo3")
    assert said(tidy.python_binding(tree(files))) == [
        "crates/runtime/Cargo.toml: `runtime` depends on pyo3; only crates/python binds Python"
    ]


def test_unsafe_is_found_in_code_and_not_in_prose(tree):
    prose = '//! unsafe\n/* unsafe\n unsafe */\nconst A: &str = "unsafe \\" unsafe";\nconst B: &str = r#"unsafe"#;\n'
    lifetimes = "fn f<'a, 'b>(x: &'a u8, c: char) -> bool { c == '\"' }\n"
    files = crate("runtime") | {"crates/runtime/src/lib.rs": prose + lifetimes + "#![deny(unsafe_code)]\nunsafe {}\n"}
    assert said(tidy.unsafe_code(tree(files))) == ["crates/runtime/src/lib.rs:8: `unsafe` outside net, python, store"]


def test_unsafe_is_free_where_it_belongs(tree):
    assert said(tidy.unsafe_code(tree(crate("store") | {"crates/store/src/lib.rs": "unsafe {}\n"}))) == []


@pytest.mark.parametrize(
    "line",
    [
        "use std::time::Instant;",
        "let now = SystemTime::now();",
        "use std::{collections::BTreeMap, thread};",
        "std::thread::sleep(d);",
        "use std::net::TcpStream;",
        "use std::fs::File;",
        "let x = rand::random();",
    ],
)
def test_a_brain_names_no_clock_thread_socket_file_or_chance(tree, line):
    assert len(said(tidy.pure_brains(tree(crate("owner") | {"crates/owner/src/lib.rs": line})))) >= 1


def test_a_brain_may_speak_of_time_in_prose_and_use_durations(tree):
    text = "//! Instant answers.\nuse std::time::Duration;\nstruct Operand;\nlet instant = 3;\n"
    assert said(tidy.pure_brains(tree(crate("owner", "model") | {"crates/owner/src/lib.rs": text}))) == []


def test_a_body_may_read_the_clock(tree):
    assert said(tidy.pure_brains(tree(crate("node") | {"crates/node/src/lib.rs": "use std::time::Instant;"}))) == []


def test_a_brain_depends_on_no_system_crate(tree):
    assert said(tidy.pure_brains(tree(workspace() | crate("owner", "libc")))) == [
        "crates/owner/Cargo.toml: brain `owner` depends on libc"
    ]


def test_every_crate_is_drawn_on_the_map(tree):
    page = {"ARCHITECTURE.md": "The model of control.\n```\ncrates/\n  model  ids\n```\nand `wire`\n"}
    files = crate("model") | crate("wire") | crate("control") | page
    assert said(tidy.crates_on_the_map(tree(files))) == ["ARCHITECTURE.md: the map does not name crate `control`"]


def test_leftovers_are_found(tree):
    files = {
        "crates/node/src/a.rs": "dbg!(x);\n// " + "XX" + 'X later\nlet s = "todo!";\ntodo!()\n',
        "python/eagleray/a.py": "# " + "FIX" + "ME\n",
        "docs/a.md": "FIX" + "ME is a word here\n",
    }
    assert said(sorted(tidy.leftovers(tree(files)))) == [
        "crates/node/src/a.rs:1: leftover dbg!",
        "crates/node/src/a.rs:2: leftover " + "XX" + "X",
        "crates/node/src/a.rs:4: leftover todo!",
        "python/eagleray/a.py:1: leftover " + "FIX" + "ME",
    ]


def test_a_comment_that_is_a_lone_question_word_is_found(tree):
    files = {
        "crates/node/src/a.rs": "struct A {\n    /// Which.\n    a: u8,\n    /// Which actor.\n    b: u8,\n}\n",
        "python/eagleray/a.py": "#: For whom.\nx = 1\n",
    }
    assert said(sorted(tidy.named_subjects(tree(files)))) == [
        "crates/node/src/a.rs:2: `/// Which.` names nothing: say what it is",
        "python/eagleray/a.py:1: `#: For whom.` names nothing: say what it is",
    ]


def test_a_long_file_is_found_and_a_listed_one_may_not_grow(tree, monkeypatch):
    files = {"python/eagleray/a.py": "x = 1\n" * 601, "python/eagleray/b.py": "x = 1\n" * 700}
    monkeypatch.setattr(tidy, "LONG_FILES", {"python/eagleray/b.py": 700})
    assert said(tidy.long_files(tree(files))) == ["python/eagleray/a.py: 601 lines, 600 allowed: split it"]
    monkeypatch.setattr(tidy, "LONG_FILES", {"python/eagleray/a.py": 601, "python/eagleray/b.py": 699})
    assert said(tidy.long_files(tree(files))) == ["python/eagleray/b.py: 700 lines, 699 allowed: split it"]


def test_a_listed_file_that_became_short_leaves_the_list(tree, monkeypatch):
    monkeypatch.setattr(tidy, "LONG_FILES", {"python/eagleray/a.py": 700, "gone.py": 800})
    first, second = said(tidy.long_files(tree({"python/eagleray/a.py": "x = 1\n"})))
    assert "short enough" in first
    assert "gone" in second


TOUR = {
    "python/eagleray/a.py": '''def remote():
    """Sends a call.

    tour(task) 1: arguments are packed
    once.

    More.
    """
''',
    "python/eagleray/b.py": """# tour(task) 4: the value is
# unpacked.
def get():
    pass
""",
    "crates/runtime/src/submit.rs": """/// tour(task) 2: the call gets an id,
/// and waits.
///
/// More.
pub(crate) fn submit() {}
""",
    "crates/owner/src/lib.rs": """    /// Decides.
    /// tour(task) 3: lineage is kept.
    #[inline]
    fn on_submitted(&mut self) {}
""",
}


def test_a_tour_collects_text_and_names_in_order(tree):
    stops = tree(TOUR).read_tours()["task"]
    assert [(stop.number, stop.name, stop.text) for stop in stops] == [
        (1, "remote", "arguments are packed once."),
        (2, "submit", "the call gets an id, and waits."),
        (3, "on_submitted", "lineage is kept."),
        (4, "get", "the value is unpacked."),
    ]
    assert (stops[0].path, stops[0].line) == ("python/eagleray/a.py", 4)


def test_a_one_line_docstring_is_a_stop(tree):
    files = {"python/eagleray/a.py": 'def put():\n    """tour(object) 1: bytes are copied."""\n    return 1\n'}
    (stop,) = tree(files).read_tours()["object"]
    assert (stop.name, stop.text) == ("put", "bytes are copied.")


def test_gaps_and_repeats_in_a_tour_are_found(tree):
    files = TOUR | {"crates/owner/src/lib.rs": "/// tour(task) 2: again.\nfn f() {}\n"}
    findings = said(tidy.tour_numbers(tree(files)))
    assert len(findings) == 2
    assert "is also at" in findings[0]
    assert "no stop 3" in findings[1]


def test_a_page_is_stale_until_it_is_written(tree, tmp_path):
    stale = tree(TOUR)
    assert said(tidy.tour_pages(stale)) == ["docs/life-of-a-task.md: stale: run `python scripts/tidy.py --write-tour`"]
    page = tours.page_text("task", stale.read_tours()["task"])
    assert said(tidy.tour_pages(tree({"docs/life-of-a-task.md": page}))) == []
    # Lines that move do not matter; a changed way does.
    assert said(tidy.tour_pages(tree({"python/eagleray/b.py": "\n\n" + TOUR["python/eagleray/b.py"]}))) == []
    assert len(said(tidy.tour_pages(tree({"python/eagleray/b.py": "\n"})))) == 1


def test_a_page_without_a_tour_is_found(tree):
    assert "delete the page" in said(tidy.tour_pages(tree({"docs/life-of-an-actor.md": "old\n"})))[0]


def test_ignored_files_are_not_read(tree, tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    files = {".gitignore": "*.gen.py\n", "python/a.gen.py": "# " + "FIX" + "ME\n", "python/a.py": "x = 1\n"}
    assert tree(files).paths == [".gitignore", "python/a.py"]
