"""Packages where they are used: a node unpacks each once, for all its processes, into the folder of its session."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from eagleray import _native
from eagleray._common.settings import from_env
from eagleray.exceptions import RuntimeEnvSetupError
from eagleray.runtime_env.packages import ID_BYTES
from eagleray.runtime_env.packing import check_names

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Beside the bodies that packages come in: what goes with the session, also where its logs stay.
_PLACE = Path("functions", "packages")
#: Beyond so many GiB of packages a node removes those that nobody uses, as Ray does.
_GIB_MAX = 10.0

#: The packages that this process uses: the descriptor of each one's lock, which is shared for as long as the process lives.
_USED: dict[str, int] = {}


def folders(named: Mapping[str, str]) -> tuple[str | None, list[str]]:
    """Unpack what a lease names, by field. Gives the folder to work in, if there is one, and those to import from."""
    try:
        working = named.get("working_dir")
        folder = None if working is None else _folder(working)
        modules = [_folder(name) for name in named.get("py_modules", "").split(",") if name]
    except RuntimeEnvSetupError:
        raise
    except Exception as error:
        raise _failed(f"{type(error).__name__}: {error}") from error
    return folder, [folder, *modules] if folder is not None else modules


def _failed(text: str) -> RuntimeEnvSetupError:
    from eagleray._errors.imports import here

    return RuntimeEnvSetupError(f"[Node {here()}] {text}")


def _folder(name: str) -> str:
    """Find a package's folder, and unpack it if that is to be done yet."""
    place = Path(_native.identity()["session_dir"]) / _PLACE
    folder = place / name
    if name in _USED:
        return str(folder)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = _open(place / f"{name}.lock")
    try:
        # From here on nobody removes it.
        fcntl.flock(lock, fcntl.LOCK_SH)
        if not folder.is_dir():
            _make(name, folder, lock)
        os.utime(lock)
    except BaseException:
        os.close(lock)
        raise
    _USED[name] = lock
    return str(folder)


def _make(name: str, folder: Path, lock: int) -> None:
    """Unpack a package, or wait until another process has."""
    # A lock of its own: whoever has the package keeps the other one.
    making = _open(folder.with_suffix(".making"))
    try:
        fcntl.flock(making, fcntl.LOCK_EX)
        if not folder.is_dir():
            os.pwrite(lock, b"%20d" % _unpack(name, folder), 0)
            _make_room(folder.parent)
    finally:
        os.close(making)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _unpack(name: str, folder: Path) -> int:
    """Unpack a package beside its folder, which it becomes when it is whole. Says how many bytes it has."""
    content = _content(name)
    part = folder.with_name(f"{name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        size = extract(content, part)
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return size


def _content(name: str) -> bytes:
    ids = _body(bytes.fromhex(name), name)
    return b"".join(_body(ids[at : at + ID_BYTES], name) for at in range(0, len(ids), ID_BYTES))


def _body(body_id: bytes, name: str) -> bytes:
    body = _native.fetch(body_id)
    if body is None:
        raise _failed(f"The package {name} was never sent to this node: its session is over, or it is of another one.")
    if _native.body_id(body) != body_id:
        raise _failed(f"The package {name} has come damaged.")
    return body


def extract(content: bytes, into: Path) -> int:
    """Write the files of a zip below a new folder; says how many bytes they have."""
    into.mkdir(mode=0o700)
    size = 0
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        check_names(info.filename for info in infos)
        for info in infos:
            path = into / info.filename
            if info.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as source, path.open("wb") as target:
                shutil.copyfileobj(source, target)
            # What comes from elsewhere gives no rights but that to be run, and takes none from its owner.
            path.chmod(0o755 if info.external_attr >> 16 & 0o100 else 0o644)
            size += info.file_size
    return size


def _make_room(place: Path) -> None:
    """Remove packages that no process uses, the longest unused first, where there are more bytes of them than may be."""
    bytes_max = float(from_env("RUNTIME_ENV_WORKING_DIR_CACHE_SIZE_GB") or _GIB_MAX) * 2**30
    kept = []
    for path in place.glob("*.lock"):
        with contextlib.suppress(OSError, ValueError):
            kept.append((path.stat().st_mtime_ns, int(path.read_text()), path))
    total = sum(size for _, size, _ in kept)
    for _, size, path in sorted(kept):
        if total <= bytes_max:
            return
        if _remove(path):
            total -= size


def _remove(path: Path) -> bool:
    """Remove the package of this lock, unless somebody holds it."""
    with path.open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        folder, part = path.with_suffix(""), path.with_suffix(".part")
        with contextlib.suppress(OSError):
            folder.rename(part)
        shutil.rmtree(part, ignore_errors=True)
        # The file stays: who opened it before, and waits for the lock, must wait for the same one.
        lock.truncate(0)
    return True
