"""The cache folder: entries appear atomically, even if their writer is killed.

An entry is a folder named by the digest of all its dependencies. It is filled under another name and then renamed, so
that a killed process leaves nothing that could be mistaken for an entry. Locks are advisory file locks, which end with
the process that holds them.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from autofuse.base import knobs, reading
from autofuse.base.diagnostics import AutofuseError, Where

__all__ = [
    "CacheInfo",
    "clear",
    "entry",
    "info",
    "lock",
    "lookup",
    "prune",
    "root",
    "scratch",
    "unusable",
    "write_atomic",
]

#: Entries used within this many seconds are never evicted: a process may be about to load them.
_GRACE_S = 600.0
#: Unfinished folders older than this are leftovers of a killed process.
_STALE_S = 3600.0
_PRUNE_EVERY_S = 600.0
_KINDS = ("kernels", "headers", "failed", "traces", "triton", "functions", "choices")
#: A file of every entry: digests of the file that completes the entry, and of the other files that are read.
_DIGEST = "sha256"


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """Contents of the cache.

    Attributes:
        path: its folder.
        entries: number of entries.
        bytes: size on disk.
        limit_bytes: size above which the least recently used entries are evicted.
        kinds: kind -> entries and bytes.
    """

    path: Path
    entries: int
    bytes: int
    limit_bytes: int
    kinds: Mapping[str, tuple[int, int]]


def _named_folder() -> Path:
    """Return the folder that the user names, or one in the user's cache folder.

    Raises:
        AutofuseError: AF5009, there is no home folder: HOME is unset, and the user is not listed.
    """
    named = knobs.CACHE_DIR.get()
    try:
        if named:
            return Path(named).expanduser().absolute()
        import platformdirs

        path = Path(platformdirs.user_cache_dir("autofuse", appauthor=False))
    except RuntimeError:
        path = Path("~")
    if not path.is_absolute():
        text = "there is no cache folder: HOME is not set to a folder, and the system does not know this user"
        raise AutofuseError.of("AF5009", text, hint="name a folder with AUTOFUSE_CACHE_DIR")
    return path


def root() -> Path:
    """Return the cache folder, created if missing.

    Raises:
        AutofuseError: AF5009, it cannot be created, or other users could put code into it.
    """
    path = _named_folder()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        stat = path.stat()
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(13, "no permission to write")
    except OSError as e:
        raise _unusable(path, e.strerror or str(e)) from e
    if stat.st_mode & 0o002 and not stat.st_mode & 0o1000:
        raise _unusable(path, "every user may write into it, and kernels in it are executed")
    return path


def unusable(why: str) -> AutofuseError:
    """Return AF5009 if a program started in the cache folder reports that it cannot be written."""
    return _unusable(root(), why)


def _unusable(path: Path, why: str) -> AutofuseError:
    return AutofuseError.of(
        "AF5009",
        f"the cache folder {path} cannot be used: {why}",
        where=Where(path=str(path)),
        hint=f"name another folder with {knobs.CACHE_DIR.name}",
    )


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write a file atomically: readers see the old content or the new, never a part."""
    raw = data.encode() if isinstance(data, str) else data
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as f:
            f.write(raw)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


@contextmanager
def _in_use() -> Iterator[None]:
    """Turn file system errors into diagnostics: no space, no permission, a file in place of a folder."""
    try:
        yield
    except OSError as e:
        raise _unusable(root(), e.strerror or str(e)) from e


@contextmanager
def lock(key: str) -> Iterator[None]:
    """Hold the lock of a digest, waiting for its holder. The lock ends with the process."""
    folder = root() / "locks"
    with _in_use():
        folder.mkdir(exist_ok=True)
        fd = os.open(folder / f"{key[:2]}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield an empty folder on the file system of the cache, and remove it at the end.

    Leftovers of killed processes are removed after an hour, when another one is created.
    """
    parent = root() / "tmp"
    # Named before it is created: a signal may end this process between any two steps.
    path = parent / f"{os.getpid()}-{secrets.token_hex(8)}"
    try:
        with _in_use():
            parent.mkdir(exist_ok=True)
            _remove_leftovers(root(), time.time())
            path.mkdir(mode=0o700)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def entry(
    kind: str, key: str, done: str, make: Callable[[Path], None], also: Sequence[str] = ()
) -> Path:
    """Return the folder of an entry, filled by ``make`` if missing or damaged.

    Args:
        kind: ``kernels`` (compiled), ``headers`` (precompiled), ``failed`` (sources kept for the user to look at),
            ``traces`` (pages of AUTOFUSE_TRACE), ``triton`` (modules to import), ``functions`` (Python files that
            describe operators) or ``choices`` (times of regions of a model).
        key: hex digest of everything the content depends on.
        done: a file that completes an entry; its digest is kept, and compared at every use.
        make: fills the folder it is given; if it raises, the exception propagates and no entry is created. It must not
            request an entry itself, because it runs with the lock of this one held.
        also: other files that are read from the entry, with digests of their own.

    Raises:
        AutofuseError: AF5009, there is no space, or the folder cannot be written.
    """
    found = lookup(kind, key, done, also)
    if found is not None:
        return found
    path = root() / kind / key
    with lock(key):
        found = lookup(kind, key, done, also)
        if found is not None:
            return found
        with _in_use(), scratch() as fresh:
            make(fresh)
            digests = "\n".join(_digest(fresh / name) for name in (done, *also))
            (fresh / _DIGEST).write_text(digests, encoding="ascii")
            if path.exists():  # a damaged entry
                path.rename(fresh.with_name(fresh.name + ".old"))
                shutil.rmtree(fresh.with_name(fresh.name + ".old"), ignore_errors=True)
            path.parent.mkdir(exist_ok=True)
            fresh.rename(path)
    _prune_sometimes()
    return path


def lookup(kind: str, key: str, done: str, also: Sequence[str] = ()) -> Path | None:
    """Return the folder of an entry if it exists and is not damaged; see :func:`entry`."""
    assert kind in _KINDS, kind
    path = root() / kind / key
    try:
        wanted = reading.content(path / _DIGEST).decode("ascii", errors="replace").split()
        for i, name in enumerate((done, *also)):
            stat = (path / name).stat()
            found = _digest_of(path / name, stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if wanted[i : i + 1] != [found]:
                return None
    except (OSError, ValueError):
        return None
    with suppress(OSError):
        os.utime(path)
    return path


def _digest(path: Path) -> str:
    return reading.sha256(path)


@lru_cache(maxsize=256)
def _digest_of(path: Path, _inode: int, _size: int, _changed: int) -> str:
    """Return the digest of a file; a process reads an unchanged file once."""
    return _digest(path)


def info() -> CacheInfo:
    """Return the path and the contents of the cache."""
    kinds = dict.fromkeys(_KINDS, (0, 0))
    for path, size, _ in _entries():
        entries, total = kinds[path.parent.name]
        kinds[path.parent.name] = (entries + 1, total + size)
    return CacheInfo(
        root(),
        sum(entries for entries, _ in kinds.values()),
        sum(size for _, size in kinds.values()),
        knobs.CACHE_MB.get() << 20,
        kinds,
    )


def clear() -> CacheInfo:
    """Remove every entry except those that a process is just making; return the removed contents."""
    before = info()
    for kind in _KINDS:
        shutil.rmtree(before.path / kind, ignore_errors=True)
    _remove_leftovers(before.path, time.time())
    return before


def prune(limit_bytes: int | None = None) -> int:
    """Remove leftovers of killed processes, and the least recently used entries above the limit.

    Returns:
        The number of entries removed.
    """
    limit = knobs.CACHE_MB.get() << 20 if limit_bytes is None else limit_bytes
    now = time.time()
    base = root()
    _remove_leftovers(base, now)
    found = sorted(_entries(), key=lambda e: e[2])
    total = sum(size for _, size, _ in found)
    removed = 0
    for path, size, used in found:
        if total <= limit:
            break
        if now - used < _GRACE_S:
            continue
        with lock(path.name):
            # Other processes run while sizes are summed: the entry may have been used since, or be gone.
            with suppress(OSError):
                if path.stat().st_mtime != used:
                    continue
            shutil.rmtree(path, ignore_errors=True)
        total -= size
        removed += 1
    return removed


def _remove_leftovers(base: Path, now: float) -> None:
    """Remove unfinished folders of killed processes."""
    for left in _children(base / "tmp"):
        with suppress(OSError):
            if now - left.stat().st_mtime > _STALE_S and not _is_running(left.name):
                shutil.rmtree(left, ignore_errors=True)


def _is_running(name: str) -> bool:
    """Return True if the process that a folder of :func:`scratch` is named after still exists.

    If another process has its id by now, the folder stays until that one ends. Processes of another machine that shares
    the cache are not visible, so age decides first.
    """
    number = name.partition("-")[0]
    try:
        os.kill(int(number), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _prune_sometimes() -> None:
    stamp = root() / "pruned"
    with suppress(OSError):
        if stamp.exists() and time.time() - stamp.stat().st_mtime < _PRUNE_EVERY_S:
            return
        stamp.touch()
        prune()


def _entries() -> list[tuple[Path, int, float]]:
    """Return (folder, bytes on disk, time of last use) of every entry."""
    out = []
    for kind in _KINDS:
        for path in _children(root() / kind):
            with suppress(OSError):
                size = sum(f.stat().st_blocks * 512 for f in path.rglob("*") if f.is_file())
                out.append((path, size, path.stat().st_mtime))
    return out


def _children(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []
