"""Files that a verb was asked to write: all of them, or none if one fails."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.reading import unwritten

__all__ = ["Content", "array", "file_names", "keep_inputs", "text", "write_all"]

#: Most characters of a file name, without suffix.
_LONGEST = 120
#: Writes to an open file.
Content: TypeAlias = "Callable[[BinaryIO], object]"


def text(content: str) -> Content:
    """Return a writer of a text as UTF-8."""
    return lambda f: f.write(content.encode())


def array(content: Any) -> Content:
    """Return a writer of an array as .npy."""
    return lambda f: np.save(f, np.asarray(content), allow_pickle=False)


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Map tensor names to file names without suffix; names with a path or a leading dot are changed."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        # Some file systems ignore case.
        word = re.sub(r"[^A-Za-z0-9_.\-]", "_", name).lstrip(".")[:_LONGEST] or "_"
        own, n = word, 1
        while own.lower() in taken:
            n += 1
            own = f"{word}_{n}"
        taken.add(own.lower())
        found[name] = own
    return found


def keep_inputs(path: Path, read: Mapping[str, Path]) -> None:
    """Raise AF1005 if a file to write is also read."""
    for what, other in read.items():
        if path.resolve() == other.resolve():
            text = f"{path} would overwrite {what}"
            raise AutofuseError.of("AF1005", text, hint="give the output file another name")


def write_all(files: Mapping[Path, Content], folder: Path | None = None) -> None:
    """Write files so that a failure leaves the previous contents, and nothing else.

    Devices and pipes are written directly.

    Args:
        files: path -> writer.
        folder: created first if missing.

    Raises:
        AutofuseError: AF5005, a file or the folder cannot be written.
    """
    begun: dict[Path, Path] = {}
    made: list[Path] = []
    try:
        if folder is not None:
            with _refusals(folder):
                made = [p for p in (folder, *folder.parents) if not p.exists()]
                folder.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            with _refusals(path):
                own = _beside(path)
                if own is None:
                    with path.open("wb") as f:
                        content(f)
                else:
                    begun[own] = path
                    with own.open("xb") as f:
                        content(f)
        for own, path in begun.items():
            with _refusals(path):
                whole = path.resolve()
                if whole.exists():
                    own.chmod(stat.S_IMODE(whole.stat().st_mode))
                own.replace(whole)
    except BaseException:
        for own in begun:
            with suppress(OSError):
                own.unlink()
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        raise


def _beside(path: Path) -> Path | None:
    """Return a temporary name beside a file; None if the file is not a regular one."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        pass
    else:
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            return None
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return path.resolve().with_name(f".autofuse-{secrets.token_hex(8)}")


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Turn errors of the file system into a diagnostic."""
    try:
        yield
    except (OSError, ValueError) as e:
        why = unwritten(path, e)
        # NumPy reports a short write without its reason.
        if isinstance(e, OSError) and e.errno is None:
            why += " (is there room?)"
        raise AutofuseError.of(
            "AF5005", f"cannot write {path}: {why}", where=Where(path=str(path))
        ) from e
