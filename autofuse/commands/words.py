"""Command-line arguments of the form NAME=VALUE, and the target option of a suggested command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autofuse import api
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.reading import regular, unreadable
from autofuse.base.wording import counted

__all__ = ["array", "pairs", "sizes", "target_option"]

#: Most digits of a size: more than any size has, and fewer than Python parses.
_DIGITS = 40
#: First bytes of a .npy file.
_MAGIC = b"\x93NUMPY"


def pairs(words: Sequence[str], option: str) -> dict[str, str]:
    """Return NAME -> VALUE.

    Raises:
        AutofuseError: AF1005, an argument has another form, or a name occurs twice.
    """
    out: dict[str, str] = {}
    for word in words:
        name, equals, value = _parted(word)
        if not (name and equals and value):
            raise AutofuseError.of(
                "AF1005", f"{option} {word}: expected NAME=VALUE", hint=f"for example {option} n=8"
            )
        if name in out:
            raise AutofuseError.of("AF1005", f"{option} {name} is given twice")
        out[name] = value
    return out


def _parted(word: str) -> tuple[str, str, str]:
    """Split an argument at its first ``=``, or at a later one before a size or a file: names may contain ``=``."""
    parts = word.split("=")
    for k in range(len(parts) - 1, 1, -1):
        value = "=".join(parts[k:])
        if (k == len(parts) - 1 and value.isdigit()) or Path(value).is_file():
            return "=".join(parts[:k]), "=", value
    return word.partition("=")


def sizes(words: Sequence[str], option: str) -> dict[str, int]:
    """Return NAME -> size; an argument may have several, separated by commas.

    Raises:
        AutofuseError: AF1005, as :func:`pairs`, or a value is not a size.
    """
    each = [part for word in words for part in _listed(word)]
    return {name: _size(name, text, option) for name, text in pairs(each, option).items()}


def _listed(word: str) -> list[str]:
    """Split ``n=8,m=3``; an argument with other commas, as in a name, is one part."""
    parts = word.split(",")
    return parts if all("=" in p and p.rpartition("=")[2].isdigit() for p in parts) else [word]


def array(file: str) -> Any:
    """Return the array of ``--input NAME=FILE``.

    Raises:
        AutofuseError: AF1001, they cannot be read.
    """
    try:
        with regular(Path(file)) as f:
            # Only the header is read here, so an array of the wrong shape is never loaded.
            is_array = f.read(len(_MAGIC)) == _MAGIC
        found = np.load(file, mmap_mode="r" if is_array else None, allow_pickle=False)
        return np.asarray(found) if is_array else found
    except OSError as e:
        raise unreadable(file, "a .npy file", e) from e
    except (ValueError, EOFError) as e:
        text = f"{file} is not a valid .npy file: {e}"
        raise AutofuseError.of("AF1001", text, where=Where(path=file)) from e


def target_option(target: str) -> str:
    """Return the option that selects the target in a command; empty for the default."""
    return "" if target == api.DEFAULT_TARGET else f" -t {target}"


def _size(name: str, text: str, option: str) -> int:
    if len(text) > _DIGITS:
        raise AutofuseError.of(
            "AF1005", f"{option} {name}: no size has {counted(len(text), 'digit')}"
        )
    if not text.isascii() or not text.isdigit():
        raise AutofuseError.of("AF1005", f"{option} {name}={text}: {text!r} is not a size")
    return int(text)
