"""Folders, files and archives become the bytes of a zip: the same bytes for the same content, wherever and whenever.

What a folder's `.gitignore` and `.rayignore` name stays out, as does what the program excludes and what nobody wants elsewhere.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
from typing import TYPE_CHECKING, NamedTuple

from eagleray._common.settings import from_env, is_on
from eagleray.runtime_env.ignoring import Patterns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: What Ray leaves out too, unless it is told otherwise.
_DEFAULT_EXCLUDES = ".git,.venv,venv,__pycache__"
#: What Ray takes at most, in bytes.
_BYTES_MAX = 500 * 1024 * 1024
#: How many files an error names.
_NAMED_MAX = 5
#: These are unpacked where they are needed.
ARCHIVES = (".zip", ".whl")
#: Single files that can be imported.
_MODULES = (".py", ".so")
#: No file has a time of its own: two packages of one content are the same.
_TIME = (1980, 1, 1, 0, 0, 0)


class Entry(NamedTuple):
    """One file of a package, or a folder in which there is nothing.

    Attributes:
        name: its path in the package, with `/` between.
        path: where it is.
        seen: what changes when its content does.
    """

    name: str
    path: str
    size: int
    is_folder: bool
    is_executable: bool
    seen: tuple[int, int]


def is_archive(path: str) -> bool:
    """Tell whether this is a package already."""
    return path.endswith(ARCHIVES) and os.path.isfile(path)


def entries(path: str, excludes: Iterable[str], *, field: str) -> list[Entry]:
    """List what goes into the package of a folder or file, for this field of an environment."""
    is_module = field == "py_modules"
    if os.path.isdir(path):
        top = os.path.basename(path) + "/" if is_module else ""
        if top == "/":
            raise ValueError(f"runtime_env['py_modules'] cannot name {path}: what is imported needs a name")
        patterns = Patterns([*_default_excludes(), *excludes])
        listed = list(_walk(path, top, [(path, patterns)], frozenset()))
    elif is_archive(path) or (is_module and path.endswith(_MODULES) and os.path.isfile(path)):
        listed = [_entry(path, os.path.basename(path), os.stat(path))]
    else:
        wanted = f"file that ends in {', '.join((*ARCHIVES, *_MODULES))}" if is_module else "zip package"
        raise ValueError(f"runtime_env[{field!r}]: {path} must be an existing directory or a {wanted}")
    _check_size(path, [(entry.size, entry.name) for entry in listed])
    return sorted(listed)


def packed(path: str, listed: Sequence[Entry]) -> bytes:
    """Read what was listed."""
    if is_archive(path):
        content = _read(path)
        _check_archive(path, content)
        return content
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for entry in listed:
            about = zipfile.ZipInfo(entry.name + "/" * entry.is_folder, _TIME)
            about.create_system = 3  # Unix: what the modes below mean
            mode = stat.S_IFDIR | 0o755 if entry.is_folder else stat.S_IFREG | (0o755 if entry.is_executable else 0o644)
            about.external_attr = mode << 16
            about.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(about, b"" if entry.is_folder else _read(entry.path))
    return out.getvalue()


def check_names(names: Iterable[str]) -> None:
    """Refuse names by which an archive would write outside of its folder."""
    for name in names:
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"it names a file outside of itself: {name!r}")


def _walk(
    folder: str, top: str, rules: list[tuple[str, Patterns]], above: frozenset[tuple[int, int]]
) -> Iterator[Entry]:
    """List a folder. Links are followed; one that leads back to a folder above is left out."""
    try:
        about = os.stat(folder)
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise _unreadable(folder, error) from None
    identity = (about.st_dev, about.st_ino)
    if identity in above:
        return
    if not names and above:
        yield Entry(top.rstrip("/"), folder, size=0, is_folder=True, is_executable=False, seen=(0, 0))
    rules = [*rules, *_of_folder(folder, names)]
    for name in names:
        path = os.path.join(folder, name)
        try:
            about = os.stat(path)
        except FileNotFoundError:
            continue  # a link to nothing
        except OSError as error:
            raise _unreadable(path, error) from None
        is_folder = stat.S_ISDIR(about.st_mode)
        if any(
            (patterns.match_folder if is_folder else patterns.match)(path[len(root) :].lstrip("/"))
            for root, patterns in rules
        ):
            continue
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{path!r} cannot be packed: its name is not text. {_ADVICE}") from None
        if is_folder:
            yield from _walk(path, f"{top}{name}/", rules, above | {identity})
        elif stat.S_ISREG(about.st_mode):
            yield _entry(path, top + name, about)


def _default_excludes() -> list[str]:
    # Set to nothing it means that nothing stays out, so that this is no setting as others are.
    names = (prefix + "OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES" for prefix in ("EAGLERAY_", "RAY_"))
    given = next((os.environ[name] for name in names if name in os.environ), _DEFAULT_EXCLUDES)
    return given.split(",")


def _of_folder(folder: str, names: Sequence[str]) -> Iterator[tuple[str, Patterns]]:
    files = [".rayignore"] if is_on("RUNTIME_ENV_IGNORE_GITIGNORE", default=False) else [".gitignore", ".rayignore"]
    for name in files:
        path = os.path.join(folder, name)
        if name in names and os.path.isfile(path):
            yield folder, Patterns(_read(path).decode(errors="surrogateescape").splitlines())


def _entry(path: str, name: str, about: os.stat_result) -> Entry:
    return Entry(
        name,
        path,
        about.st_size,
        is_folder=False,
        is_executable=bool(about.st_mode & stat.S_IXUSR),
        seen=(about.st_mtime_ns, about.st_ino),
    )


_ADVICE = "Leave it out by runtime_env={'excludes': [...]}, or by a line in .rayignore"


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: OSError) -> OSError:
    # Python makes it of the class that the number stands for.
    return OSError(error.errno, f"{path} cannot be packed: {error.strerror}. {_ADVICE}")


def _check_archive(path: str, content: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
        check_names(info.filename for info in infos)
        if any(info.flag_bits & 1 for info in infos):
            raise ValueError("it is encrypted")
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise ValueError(f"{path} is no zip package that can be used: {error}") from None
    _check_size(path, [(info.file_size, info.filename) for info in infos])


def _check_size(path: str, files: Sequence[tuple[int, str]]) -> None:
    size, size_max = sum(size for size, _ in files), int(from_env("max_grpc_message_size") or _BYTES_MAX)
    if size <= size_max:
        return
    largest = ", ".join(f"{name} ({_mib(size)})" for size, name in sorted(files, reverse=True)[:_NAMED_MAX])
    raise ValueError(
        f"Package size ({_mib(size)}) exceeds the maximum size of {_mib(size_max)}: {path}. The largest files are {largest}. You can "
        "leave files out by runtime_env={'excludes': [...]} or a .rayignore file; RAY_max_grpc_message_size is the maximum, in bytes."
    )


def _mib(size: int) -> str:
    return f"{size / 1024**2:.2f}MiB"
