"""Files of a folder that somebody names are read only where they are files, and up to a limit.

A named pipe or a device would be waited for, or read without end; only what is named itself may be one (:func:`named`).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["MAX_TEXT", "TooLargeError", "content", "named", "regular", "sha256", "text"]

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
