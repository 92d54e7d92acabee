"""The cache folder: entries appear whole or not at all, whatever happens to their makers.

An entry is a folder named by the digest of everything that it depends on.  It is filled under
another name and then renamed, so that a killed process leaves nothing that a later one could
mistake for an entry.  Locks are advisory file locks, which end with the process that holds them.
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

#: Entries used within this many seconds are never removed to save room: a process may be about to
#: load them.
_GRACE_S = 600.0
#: Unfinished folders older than this are left over from a killed process.
_STALE_S = 3600.0
_PRUNE_EVERY_S = 600.0
_KINDS = ("kernels", "headers", "failed", "traces", "triton", "functions")
#: A file of every entry: the digest of the file that makes the entry complete, and of others that are read.
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
    """The folder that the user names, or that of the user's caches.

    Raises:
        AutofuseError: AF5009, it is in the home folder, and there is none: HOME is not set, and the user is not listed.
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
        text = "there is no cache folder: HOME is not set to one, and the system does not know this user"
        raise AutofuseError.of("AF5009", text, hint="name a folder with AUTOFUSE_CACHE_DIR")
    return path


def root() -> Path:
    """The cache folder, made if it is not there.

    Raises:
        AutofuseError: AF5009, it cannot be made, or others could put code into it.
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
    """AF5009 where something that was started in the cache folder says that it cannot be written."""
    return _unusable(root(), why)


def _unusable(path: Path, why: str) -> AutofuseError:
    return AutofuseError.of(
        "AF5009",
        f"the cache folder {path} cannot be used: {why}",
        where=Where(path=str(path)),
        hint=f"name another folder with {knobs.CACHE_DIR.name}",
    )


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write a file so that readers see the old content or the new, never a part."""
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
    """Turn errors of the file system into diagnostics: no space, no permission, a file in place of a folder."""
    try:
        yield
    except OSError as e:
        raise _unusable(root(), e.strerror or str(e)) from e


@contextmanager
def lock(key: str) -> Iterator[None]:
    """Hold the lock of a digest; waits for its holder.  The lock ends with the process."""
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
    """An empty folder on the file system of the cache; what is left in it at the end is removed.

    Those of processes that were killed are removed when another one is made, an hour later.
    """
    parent = root() / "tmp"
    # Named before it is made: a signal may end this process between any two steps.
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
    """The folder of an entry, made by ``make`` if it is not there or damaged.

    Args:
        kind: ``kernels`` (compiled), ``headers`` (precompiled), ``failed`` (sources kept for the
            user to look at), ``traces`` (pages of AUTOFUSE_TRACE), ``triton`` (modules to import) or
            ``functions`` (files of Python that operators were described by).
        key: hex digest of everything the content depends on.
        done: a file that a complete entry holds; its digest is kept, and compared at every use.
        make: fills the folder it is given; what it raises is passed on, and no entry is made.  It
            must not ask for an entry itself: it is called with the lock of this one held.
        also: other files that are read from it, with digests of their own.

    Raises:
        AutofuseError: AF5009, there is no room, or the folder cannot be written.
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
            if path.exists():  # an entry that was damaged
                path.rename(fresh.with_name(fresh.name + ".old"))
                shutil.rmtree(fresh.with_name(fresh.name + ".old"), ignore_errors=True)
            path.parent.mkdir(exist_ok=True)
            fresh.rename(path)
    _prune_sometimes()
    return path


def lookup(kind: str, key: str, done: str, also: Sequence[str] = ()) -> Path | None:
    """The folder of an entry if it is there and not damaged; see :func:`entry`."""
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
    """The digest of a file that has not changed since a process looked at it: read once."""
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
    """Remove every entry, but not what a process is about to make one of; returns what was removed."""
    before = info()
    for kind in _KINDS:
        shutil.rmtree(before.path / kind, ignore_errors=True)
    _remove_leftovers(before.path, time.time())
    return before


def prune(limit_bytes: int | None = None) -> int:
    """Remove leftovers of killed processes, and least recently used entries above the limit.

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
            # Others go on while sizes are summed up: it may have been used since, or be gone.
            with suppress(OSError):
                if path.stat().st_mtime != used:
                    continue
            shutil.rmtree(path, ignore_errors=True)
        total -= size
        removed += 1
    return removed


def _remove_leftovers(base: Path, now: float) -> None:
    """Remove what killed processes did not finish."""
    for left in _children(base / "tmp"):
        with suppress(OSError):
            if now - left.stat().st_mtime > _STALE_S and not _is_running(left.name):
                shutil.rmtree(left, ignore_errors=True)


def _is_running(name: str) -> bool:
    """Return True if the process that a folder of :func:`scratch` is named after still exists.

    If another process has its number by now, the folder stays until that one ends. A process of another machine that
    shares the cache is not visible, so age decides first.
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
    """(folder, bytes on disk, time of last use) of every entry."""
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
