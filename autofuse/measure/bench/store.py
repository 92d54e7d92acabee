"""Storage of measurements: a file that several runs append to, or a folder with one file per run."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autofuse.base import cache
from autofuse.base.artifacts import digest
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.frontends.json_positions import MAX_BYTES, MAX_VALUES
from autofuse.measure.bench.results import Measurement, read_results, results_text

__all__ = ["append_results"]


def append_results(path: Path, records: Sequence[Measurement]) -> Path:
    """Add measurements to a store.

    Several processes may do so concurrently. Writes are atomic, and a file that is not a file of results is never
    overwritten.

    Args:
        path: a file; or an existing folder, which gets a new file.
        records: the measurements to add.

    Returns:
        The file that contains them.

    Raises:
        AutofuseError: AF5005, it cannot be written, or would be too large to read; AF1xxx, the existing file is not a
            file of results.
    """
    try:
        if path.is_dir():
            text = _checked(results_text(records), path)
            # Equal measurements have equal names, so storing a run twice keeps one file.
            own = path / f"results-{digest(text)[:16]}.json"
            _place(own, text)
            return own
        if path.exists() and not path.is_file():
            raise _unwritable(path, "it is neither a file nor a folder")
        # Under the lock no other process replaces the file.
        with cache.lock(digest(str(path.resolve()))):
            before = read_results(path) if path.exists() else ()
            _place(path, _checked(results_text([*before, *records]), path))
        return path
    except OSError as e:
        raise _unwritable(path, e.strerror or str(e)) from e


def _checked(text: str, path: Path) -> str:
    """Return the text, unless it would be too large to read."""
    if len(text) > MAX_BYTES or text.count(",") > MAX_VALUES:
        hint = "give a folder or another file; verbs that read results accept several"
        raise _unwritable(path, "the file would exceed the size limit of results", hint)
    return text


def _place(path: Path, text: str) -> None:
    """Write a file atomically, with the permissions of any new file."""
    whole = path.resolve()
    own = whole.with_name(f".autofuse-{secrets.token_hex(8)}")
    try:
        with own.open("x", encoding="utf-8") as f:
            f.write(text)
        own.replace(whole)
    except BaseException:
        with suppress(OSError):
            own.unlink()
        raise


def _unwritable(path: Path, why: str, hint: str = "choose another file") -> AutofuseError:
    text = f"the results cannot be written to {path}: {why}"
    return AutofuseError.of("AF5005", text, where=Where(str(path)), hint=hint)
