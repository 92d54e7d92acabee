"""Files of a folder that somebody names are read only where they are files, and up to a limit.

A named pipe or a device would be waited for, or read without end; only what is named itself may be one (:func:`named`).
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

#: Bytes of a text of autofuse's own: generated files, manifests.
MAX_TEXT = 1 << 26
_CHUNK = 1 << 20


class TooLargeError(ValueError):
    """More bytes than the limit.

    Attributes:
        size: of the file; 0 where only its end would tell.
    """

    def __init__(self, name: str, size: int, limit: int) -> None:
        super().__init__(f"{name} has {size or f'more than {limit}'} bytes, the limit is {limit}")
        self.size = size


@contextmanager
def regular(path: Path) -> Iterator[BinaryIO]:
    """The file, open for reading; nothing is waited for.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is a pipe, a device or a folder.
    """
    # Without O_NONBLOCK a pipe would be waited for that nobody writes.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as f:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError(f"{path.name} is no file")
        yield f


def content(path: Path, limit: int = MAX_TEXT) -> bytes:
    """The bytes of a file, unless these are more than ``limit``.

    Raises:
        OSError: it cannot be read.
        ValueError: it is too large, or no file.
    """
    with regular(path) as f:
        size = os.fstat(f.fileno()).st_size
        data = b"" if size > limit else f.read(limit + 1)
    if size > limit or len(data) > limit:
        raise TooLargeError(path.name, max(size, len(data)), limit)
    return data


def named(path: Path, limit: int) -> bytes:
    """The bytes of what a user names: a file, or a pipe to which somebody writes; of a device at most MAX_TEXT.

    Raises:
        OSError: it cannot be read.
        TooLargeError: it has more bytes than that; a file is not opened then.
    """
    found = path.stat()
    if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
        limit = min(limit, MAX_TEXT)  # there may be no end of it
    if found.st_size > limit:
        raise TooLargeError("the file", found.st_size, limit)
    with path.open("rb") as f:
        data = f.read(limit + 1)
    if len(data) > limit:
        raise TooLargeError("the file", 0, limit)
    return data


def text(path: Path, limit: int = MAX_TEXT) -> str:
    """The text of a file; raises as :func:`content`, and ValueError where it is not UTF-8."""
    return content(path, limit).decode("utf-8")


def sha256(path: Path) -> str:
    """The digest of a file of any size, of which a part is in memory at a time; raises as :func:`regular`."""
    h = hashlib.sha256()
    with regular(path) as f:
        while chunk := f.read(_CHUNK):
            h.update(chunk)
    return h.hexdigest()


def unreadable(
    path: str | os.PathLike[str], wanted: str, error: Exception, *, hint: str = ""
) -> AutofuseError:
    """AF1001 for a file that cannot be read, and why in words; AF1003 where it is too large.

    Args:
        path: what a user named.
        wanted: the kind of file, with its article.
        error: what reading it raised.
        hint: what to do.
    """
    code = "AF1003" if isinstance(error, TooLargeError) else "AF1001"
    where = Where(path=str(path))
    return AutofuseError.of(code, _why(Path(path), wanted, error), where=where, hint=hint)


def unwritten(path: Path, error: Exception) -> str:
    """The reason why a file cannot be written, in words."""
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
        # The first part that is not there, or is no folder.
        for part in reversed((path, *path.parents)):
            if part.is_symlink() and not part.exists():
                return f"{part} is a symbolic link to {part.readlink()}, which is not there"
            if part != path and part.exists() and not part.is_dir():
                return f"there is no such file: {part} is a file, not a folder"
            if part != path and not part.exists():
                return f"there is no such file: there is no folder {part}"
        return "there is no such file"
    if number in (errno.EACCES, errno.EPERM):
        return "the file cannot be read: this user may not read it"
    return f"the file cannot be read: {getattr(error, 'strerror', None) or error}"
