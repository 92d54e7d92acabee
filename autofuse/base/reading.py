"""Bounded reads of regular files in folders that a user names.

A named pipe or a device could block or never end; only a path that the user names directly may be one (:func:`named`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from autofuse.base.diagnostics import AutofuseError, Where

__all__ = [
    "MAX_TEXT",
    "TooLargeError",
    "content",
    "named",
    "regular",
    "sha256",
    "text",
    "unreadable",
    "unwritten",
]

#: Most bytes of autofuse's own texts: generated files, manifests.
MAX_TEXT = 1 << 26
_CHUNK = 1 << 20


class TooLargeError(ValueError):
    """The file has more bytes than the limit.

    Attributes:
        size: bytes of the file; 0 if they are unknown before its end.
    """

    def __init__(self, name: str, size: int, limit: int) -> None:
        super().__init__(f"{name} has {size or f'more than {limit}'} bytes, the limit is {limit}")
        self.size = size


@contextmanager
def regular(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, without blocking.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is a pipe, a device or a folder.
    """
    # Without O_NONBLOCK, opening a pipe without a writer would block.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as f:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError(f"{path.name} is not a regular file")
        yield f


def content(path: Path, limit: int = MAX_TEXT) -> bytes:
    """Return the bytes of a file, at most ``limit``.

    Raises:
        OSError: it cannot be read.
        ValueError: it is too large, or not a regular file.
    """
    with regular(path) as f:
        size = os.fstat(f.fileno()).st_size
        data = b"" if size > limit else f.read(limit + 1)
    if size > limit or len(data) > limit:
        raise TooLargeError(path.name, max(size, len(data)), limit)
    return data


def named(path: Path, limit: int) -> bytes:
    """Return the bytes of a file or a pipe that the user names; of a device at most MAX_TEXT.

    Raises:
        OSError: it cannot be read.
        TooLargeError: it is larger than the limit; a regular file is then not opened.
    """
    found = path.stat()
    if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
        limit = min(limit, MAX_TEXT)  # it may be endless
    if found.st_size > limit:
        raise TooLargeError("the file", found.st_size, limit)
    with path.open("rb") as f:
        data = f.read(limit + 1)
    if len(data) > limit:
        raise TooLargeError("the file", 0, limit)
    return data


def text(path: Path, limit: int = MAX_TEXT) -> str:
    """Return the text of a file; raises as :func:`content`, and ValueError if it is not UTF-8."""
    return content(path, limit).decode("utf-8")


def sha256(path: Path) -> str:
    """Return the digest of a file of any size, read in chunks; raises as :func:`regular`."""
    h = hashlib.sha256()
    with regular(path) as f:
        while chunk := f.read(_CHUNK):
            h.update(chunk)
    return h.hexdigest()


def unreadable(
    path: str | os.PathLike[str], wanted: str, error: Exception, *, hint: str = ""
) -> AutofuseError:
    """Return AF1001, with the reason, for a file that cannot be read; AF1003 if it is too large.

    Args:
        path: the file that the user named.
        wanted: the kind of file, with its article.
        error: the exception from reading it.
        hint: the action to take.
    """
    code = "AF1003" if isinstance(error, TooLargeError) else "AF1001"
    where = Where(path=str(path))
    return AutofuseError.of(code, _why(Path(path), wanted, error), where=where, hint=hint)


def unwritten(path: Path, error: Exception) -> str:
    """Return the reason why a file cannot be written, in words."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EISDIR:
        return "this is a folder"
    if number in (errno.ENOENT, errno.ENOTDIR, errno.EEXIST):
        for part in reversed(path.parents):
            if part.exists() and not part.is_dir():
                return f"{part} is a file, not a folder"
            if not part.exists():
                return f"there is no folder {part}"
    return getattr(error, "strerror", None) or str(error)


def _why(path: Path, wanted: str, error: Exception) -> str:
    if isinstance(error, TooLargeError):
        return str(error)
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EISDIR or (number is None and path.is_dir()):
        return f"this is a folder, not {wanted}"
    if number in (errno.ENOENT, errno.ENOTDIR):
        # The first part that is missing or not a folder.
        for part in reversed((path, *path.parents)):
            if part.is_symlink() and not part.exists():
                return f"{part} is a symbolic link to {part.readlink()}, which is not there"
            if part != path and part.exists() and not part.is_dir():
                return f"there is no such file: {part} is a file, not a folder"
            if part != path and not part.exists():
                return f"there is no such file: there is no folder {part}"
        return "there is no such file"
    if number in (errno.EACCES, errno.EPERM):
        return "the file cannot be read: permission denied"
    return f"the file cannot be read: {getattr(error, 'strerror', None) or error}"
