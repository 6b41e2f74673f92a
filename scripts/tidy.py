"""Checks of taste: what reviewers forget and a script does not.

Every check reads the sources and returns findings of the form ``path:line: what is wrong``. It needs nothing built,
imports nothing but the standard library and takes well under a second. The tables at the top are the policy; an
exception is a line in a table with its reason, never a flag.

    python scripts/tidy.py               check everything
    python scripts/tidy.py --tour        print the numbered tours as file:line
    python scripts/tidy.py --write-tour  write docs/life-of-a-<tour>.md from them
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent

MODEL = {"model"}
VOCABULARY = MODEL | {"wire"}
BRAINS = {"owner", "scheduler", "cluster", "depot", "control"}
MUSCLE = {"store", "net", "identity"}
#: Between brains and bodies: what a body decides with a message, held to the same rules as a brain.
CORES = {"carrier", "hub", "party"}
BODIES = {"runtime", "node", "head", "gateway"}
LIBRARIES = {"tune", "rl"}

BELOW_BODIES = VOCABULARY | BRAINS | MUSCLE | CORES
BELOW_FACES = BELOW_BODIES | BODIES

#: Which workspace crates a crate may depend on. A crate that is not listed has no place in the architecture yet.
ARROWS: dict[str, set[str]] = {
    "model": set(),
    "seeded": set(),
    "wire": MODEL,
    **dict.fromkeys(BRAINS, MODEL),
    **dict.fromkeys(CORES, VOCABULARY | BRAINS | {"seeded"}),
    "cluster": VOCABULARY,  # bytes are what a session is about
    "depot": VOCABULARY,  # what nodes say to each other is what it is about
    **dict.fromkeys(MUSCLE, VOCABULARY),
    **dict.fromkeys(BODIES, BELOW_BODIES),  # bodies meet through wire only, never each other
    "macros": set(),
    "eagleray": BELOW_FACES | {"macros"},
    "tracelog": set(),
    "python": BELOW_FACES | LIBRARIES | {"tracelog"},
    "cli": BELOW_FACES | {"eagleray"},
    **dict.fromkeys(LIBRARIES, MODEL | {"seeded"}),
    "sim": BELOW_FACES | {"seeded"},
    "fuzz": BELOW_FACES,
}

#: Further arrows that tests may use: (crate, dev-dependency) -> why.
DEV_ARROWS: dict[tuple[str, str], str] = {
    ("cluster", "seeded"): "its property test is a network that a seed decides",
}

#: The crates that may bind Python.
PYO3_CRATES = {"python"}

#: The crates that may say ``unsafe``.
UNSAFE_CRATES = {"store", "net", "python"}

#: Single files elsewhere that may say ``unsafe``: path -> why.
UNSAFE_FILES: dict[str, str] = {"crates/rl/src/nn/product.rs": "the one call of a matrix product"}

#: What the source of a brain or a core may not name. It gets time, chance and the outside world as events.
BRAIN_BANS: tuple[tuple[str, str], ...] = (
    (r"\bInstant\b", "std::time::Instant"),
    (r"\b(?:SystemTime|UNIX_EPOCH)\b", "std::time::SystemTime"),
    (r"\bstd::thread\b|\bthread::\w|\bthread_local!|\bstd::\{[^}]*\bthread\b", "std::thread"),
    (r"\bstd::net\b|\bstd::os::unix::net\b|\bstd::\{[^}]*\bnet\b", "std::net"),
    (r"\bstd::fs\b|\bfs::\w|\bstd::\{[^}]*\bfs\b", "std::fs"),
    (r"\bstd::env\b|\benv::\w|\bstd::\{[^}]*\benv\b", "std::env"),
    (r"\bstd::process\b|\bprocess::\w|\bstd::\{[^}]*\bprocess\b", "std::process"),
    (r"\b(?:rand|fastrand|getrandom)::", "rand"),
    (r"\b(?:tokio|rustix|libc|mio)::", "the operating system"),
)

#: Crates that a brain or a core may not depend on outside its tests, for the same reason.
BRAIN_BANNED_CRATES = {"fastrand", "getrandom", "libc", "mio", "rand", "rustix", "tokio"}

LINES_MAX = 600

#: Files that were too long when the rule came: path -> lines. A number may shrink, never grow.
LONG_FILES: dict[str, int] = {}

#: What is left behind when someone stops in the middle. Split, so that this file does not find itself.
LEFTOVER_WORDS = ("FIX" + "ME", "XX" + "X")
LEFTOVER_MACROS = ("dbg", "todo", "unimplemented")

SOURCE_FOLDERS = ("crates", "python", "tests", "examples", "benches", "scripts")
SOURCE_SUFFIXES = {".rs", ".py", ".pyi"}
WORD_SUFFIXES = SOURCE_SUFFIXES | {".toml", ".sh", ".mk", ".ts", ".svelte"}


@dataclass(frozen=True, order=True)
class Finding:
    """One thing to mend."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}" if self.line else f"{self.path}: {self.what}"


@dataclass(frozen=True)
class Crate:
    """A folder under ``crates/`` with its manifest."""

    folder: str
    path: str
    package: str
    manifest: dict[str, Any]

    def dependencies(self, kind: str) -> dict[str, Any]:
        """The entries of one dependency table, over all targets."""
        tables = [self.manifest, *self.manifest.get("target", {}).values()]
        return {name: entry for table in tables for name, entry in table.get(kind, {}).items()}


class Tree:
    """The project's files, read once. Paths are relative to the root and use forward slashes."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.paths = sorted(_listed(root))
        self._texts: dict[str, str] = {}
        workspace = self._toml("Cargo.toml").get("workspace", {})
        self._shared: dict[str, Any] = workspace.get("dependencies", {})
        self.crates = {crate.folder: crate for crate in self._crates()}

    def text(self, path: str) -> str:
        """The file's text; a file that is no text reads as empty."""
        if path not in self._texts:
            try:
                self._texts[path] = (self.root / path).read_text(encoding="utf-8")
            except (UnicodeDecodeError, FileNotFoundError):
                self._texts[path] = ""
        return self._texts[path]

    def sources(self) -> Iterator[str]:
        """Rust and Python files that people write."""
        for path in self.paths:
            if path.split("/")[0] in SOURCE_FOLDERS and Path(path).suffix in SOURCE_SUFFIXES:
                yield path

    def rust(self, crate: str) -> Iterator[str]:
        """The Rust files of a crate."""
        prefix = self.crates[crate].path.removesuffix("Cargo.toml")
        return (path for path in self.paths if path.startswith(prefix) and path.endswith(".rs"))

    def read_tours(self) -> dict[str, list[tours.Stop]]:
        """The numbered ways through the product's code."""
        return tours.collect(
            (path, self.text(path)) for path in self.sources() if path.startswith(("crates/", "python/"))
        )

    def package_of(self, name: str, entry: object) -> str:
        """The package that a dependency entry stands for, renames and workspace inheritance resolved."""
        if isinstance(entry, dict):
            if entry.get("workspace") is True:
                return self.package_of(name, self._shared.get(name, {}))
            return str(entry.get("package", name))
        return name

    def _crates(self) -> Iterator[Crate]:
        for path in self.paths:
            if re.fullmatch(r"crates/(?:[^/]+/){1,2}Cargo\.toml", path):
                manifest = self._toml(path)
                folder = path.split("/")[-2]
                package = str(manifest.get("package", {}).get("name", folder))
                yield Crate(folder, path, package, manifest)

    def _toml(self, path: str) -> dict[str, Any]:
        return tomllib.loads(self.text(path)) if (self.root / path).is_file() else {}


def _listed(root: Path) -> Iterator[str]:
    """Tracked files and new ones that git does not ignore; outside a checkout, all but build outputs."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (root / ".git").exists():
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names = listing.split("\0")
    else:
        names = [path.relative_to(root).as_posix() for path in root.rglob("*")]
    for name in names:
        if name and not re.match(r"(?:target|build|\.venv|node_modules)/", name) and (root / name).is_file():
            yield name


_RUST_PROSE = re.compile(
    r"""
      //[^\n]*                                     # line comment
    | /\*.*?\*/                                    # block comment
    | \b[bc]?r(?P<hashes>\#*)".*?"(?P=hashes)      # raw string
    | "(?:\\.|[^"\\])*"                            # string
    | '(?:\\(?:x..|u\{[^}]*\}|.)|[^\\'\n])'        # character, not a lifetime
    """,
    re.VERBOSE | re.DOTALL,
)


def rust_code(text: str) -> str:
    """Rust source with comments and literals blanked; every line keeps its number."""
    return _RUST_PROSE.sub(lambda found: " " + "\n" * found.group().count("\n"), text)


def _matches(pattern: str, text: str) -> Iterator[tuple[int, str]]:
    for found in re.finditer(pattern, text):
        yield text.count("\n", 0, found.start()) + 1, found.group()


def arrows(tree: Tree) -> Iterator[Finding]:
    """Dependencies between workspace crates follow the map."""
    folders = {crate.package: crate.folder for crate in tree.crates.values()}
    for crate in tree.crates.values():
        if crate.folder not in ARROWS:
            yield Finding(crate.path, 0, f"crate `{crate.folder}` has no place in scripts/tidy.py's ARROWS")
            continue
        for kind in ("dependencies", "build-dependencies", "dev-dependencies"):
            for name, entry in crate.dependencies(kind).items():
                package = tree.package_of(name, entry)
                target = folders.get(package)
                if target is None or target in ARROWS[crate.folder] or target == crate.folder:
                    continue
                if kind == "dev-dependencies" and (crate.folder, target) in DEV_ARROWS:
                    continue
                allowed = ", ".join(sorted(ARROWS[crate.folder])) or "no workspace crate"
                yield Finding(crate.path, 0, f"`{crate.folder}` may not depend on `{target}` (may: {allowed})")


def python_binding(tree: Tree) -> Iterator[Finding]:
    """Only the Python face depends on pyo3."""
    for crate in tree.crates.values():
        if crate.folder in PYO3_CRATES:
            continue
        for kind in ("dependencies", "build-dependencies", "dev-dependencies"):
            for name, entry in crate.dependencies(kind).items():
                if tree.package_of(name, entry).startswith("pyo3"):
                    yield Finding(crate.path, 0, f"`{crate.folder}` depends on {name}; only crates/python binds Python")


def unsafe_code(tree: Tree) -> Iterator[Finding]:
    """``unsafe`` stays where it is reviewed as such."""
    for crate in tree.crates:
        if crate in UNSAFE_CRATES:
            continue
        for path in tree.rust(crate):
            if path not in UNSAFE_FILES:
                for line, _ in _matches(r"\bunsafe\b", rust_code(tree.text(path))):
                    yield Finding(path, line, f"`unsafe` outside {', '.join(sorted(UNSAFE_CRATES))}")
    for path in UNSAFE_FILES:
        if path.split("/")[1] in tree.crates and path not in tree.paths:
            yield Finding("scripts/tidy.py", 0, f"UNSAFE_FILES names {path}, which is gone")


def pure_brains(tree: Tree) -> Iterator[Finding]:
    """Brains and cores get time, chance and the world from outside."""
    for crate in sorted((BRAINS | CORES) & tree.crates.keys()):
        for name, entry in tree.crates[crate].dependencies("dependencies").items():
            if tree.package_of(name, entry) in BRAIN_BANNED_CRATES:
                yield Finding(tree.crates[crate].path, 0, f"brain `{crate}` depends on {name}")
        for path in tree.rust(crate):
            if "/src/" not in path:
                continue
            code = rust_code(tree.text(path))
            for pattern, name in BRAIN_BANS:
                for line, found in _matches(pattern, code):
                    yield Finding(path, line, f"brain `{crate}` names {name} (`{found.splitlines()[0]}`)")


def crates_on_the_map(tree: Tree) -> Iterator[Finding]:
    """Every crate stands in ARCHITECTURE.md."""
    page = "ARCHITECTURE.md"
    if not tree.crates:
        return
    if page not in tree.paths:
        yield Finding(page, 0, "missing; it holds the map of the crates")
        return
    text = tree.text(page)
    drawn = " ".join(re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL))
    for crate in tree.crates:
        word = re.escape(crate)
        if not re.search(rf"crates/{word}\b|`{word}`", text) and not re.search(rf"(?<!\w){word}(?!\w)", drawn):
            yield Finding(page, 0, f"the map does not name crate `{crate}`")


def leftovers(tree: Tree) -> Iterator[Finding]:
    """Nothing unfinished is committed."""
    words = rf"\b(?:{'|'.join(LEFTOVER_WORDS)})\b"
    macros = rf"\b(?:{'|'.join(LEFTOVER_MACROS)})!"
    for path in tree.paths:
        if Path(path).suffix in WORD_SUFFIXES or path == "Makefile":
            for line, found in _matches(words, tree.text(path)):
                yield Finding(path, line, f"leftover {found}")
        if path.endswith(".rs"):
            for line, found in _matches(macros, rust_code(tree.text(path))):
                yield Finding(path, line, f"leftover {found}")


def named_subjects(tree: Tree) -> Iterator[Finding]:
    """A comment names what it is about: a lone question word does not."""
    lone = r"(?m)^\s*(?://[/!]?|#:?) ?(?:(?:For )?[Ww]hom?|Which|What|How|Where|When|Whose|Why)\.$"
    for path in tree.paths:
        if path.endswith((".rs", ".py")):
            for line, found in _matches(lone, tree.text(path)):
                yield Finding(path, line, f"`{found.strip()}` names nothing: say what it is")


def long_files(tree: Tree) -> Iterator[Finding]:
    """A file fits in the head; the exceptions only shrink."""
    for path in tree.sources():
        lines = tree.text(path).count("\n")
        limit = LONG_FILES.get(path, LINES_MAX)
        if lines > limit:
            yield Finding(path, 0, f"{lines} lines, {limit} allowed: split it")
        elif path in LONG_FILES and lines <= LINES_MAX:
            yield Finding("scripts/tidy.py", 0, f"LONG_FILES names {path}, which is short enough now: remove it")
    for path in LONG_FILES:
        if path not in tree.paths:
            yield Finding("scripts/tidy.py", 0, f"LONG_FILES names {path}, which is gone: remove it")


def tour_numbers(tree: Tree) -> Iterator[Finding]:
    """The stops of each tour count 1, 2, 3 without gap or repeat."""
    for name, stops in tree.read_tours().items():
        for stop, fault in tours.faults(name, stops):
            yield Finding(stop.path, stop.line, fault)


def tour_pages(tree: Tree) -> Iterator[Finding]:
    """The written tours say what the code says."""
    pages = {tours.page_path(name): tours.page_text(name, stops) for name, stops in tree.read_tours().items()}
    for path, text in pages.items():
        if tree.text(path) != text:
            yield Finding(path, 0, "stale: run `python scripts/tidy.py --write-tour`")
    for path in tree.paths:
        if re.fullmatch(r"docs/life-of-an?-\w+\.md", path) and path not in pages:
            yield Finding(path, 0, "no code carries this tour any more: delete the page")


CHECKS: tuple[Callable[[Tree], Iterator[Finding]], ...] = (
    arrows,
    python_binding,
    unsafe_code,
    pure_brains,
    crates_on_the_map,
    leftovers,
    named_subjects,
    long_files,
    tour_numbers,
    tour_pages,
)


def check(tree: Tree) -> list[Finding]:
    """All findings, sorted by path."""
    return sorted({finding for one in CHECKS for finding in one(tree)})


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Checks of taste over the whole tree.")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--tour", action="store_true", help="print the tours as file:line")
    action.add_argument("--write-tour", action="store_true", help="write docs/life-of-a-<tour>.md")
    options = parser.parse_args(arguments)
    tree = Tree()
    if options.tour:
        for name, stops in tree.read_tours().items():
            for stop in stops:
                print(f"tour({name}) {stop.number:>2}  {stop.path}:{stop.line}  {stop.name}: {stop.text}")
        return 0
    if options.write_tour:
        for name, stops in tree.read_tours().items():
            page = tree.root / tours.page_path(name)
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(tours.page_text(name, stops), encoding="utf-8")
            print(page.relative_to(tree.root))
        return 0
    findings = check(tree)
    for finding in findings:
        print(finding)
    print(f"tidy: {len(findings)} to mend" if findings else f"tidy: {len(tree.paths)} files are in order")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
