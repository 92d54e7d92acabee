"""A failure that is no diagnostic is a bug of autofuse: AF9001, with what is needed to look into it."""

from __future__ import annotations

import errno
import itertools
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from autofuse.base import artifacts, knobs, reading
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.implgraph.ir.fusion import FusionGraph

__all__ = ["cut_around", "internal_error", "is_internal", "no_room", "reporting_bugs"]

#: Internal errors that were cut around in this process: the first is a warning.
_CUT_AROUND = itertools.count()


@contextmanager
def reporting_bugs(graph: object, options: Mapping[str, object]) -> Iterator[None]:
    """Turn an exception that is not a diagnostic into AF9001, with a reproducer on disk.

    Too little memory is no bug: MemoryError passes. Nor is a disk that is full.
    """
    try:
        yield
    except (AutofuseError, MemoryError):
        raise
    except OSError as e:
        raise (no_room(e) or internal_error(e, source=_source(graph), options=options)) from e
    except Exception as e:
        raise internal_error(e, source=_source(graph), options=options) from e


def is_internal(error: AutofuseError) -> bool:
    """Return True if the error is a bug of autofuse and not in its input."""
    return any(d.code == "AF9001" for d in error.diagnostics)


def cut_around(error: AutofuseError, instead: str) -> None:
    """Say once in a process that something else does the work of a part for which autofuse failed.

    Args:
        error: an internal one.
        instead: who does the work.

    Raises:
        AutofuseError: ``error`` itself, with ``AUTOFUSE_STRICT=1``.
    """
    if knobs.STRICT.get():
        raise error
    if next(_CUT_AROUND) == 0:
        found = error.diagnostics[0]
        words = "; ".join((found.message, *found.notes))
        text = (
            f"autofuse failed, and {instead} does the work of that part: {words}. This is said once; "
            f"{knobs.STRICT.name}=1 makes it an error"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def no_room(error: OSError) -> AutofuseError | None:
    """AF5005 where a file cannot be written because the disk, or what a user may take of it, is full; else None."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS):
        return None
    path = str(error.filename or "")
    text = f"a file cannot be written: {error.strerror}"
    return AutofuseError.of("AF5005", text, where=Where(path=path))


def _source(graph: object) -> str:
    """The text to reproduce a failure from."""
    from autofuse.frontends import MAX_FILE, read_graph
    from autofuse.frontends.onnx import looks_like_onnx
    from autofuse.implgraph.ir.serialise import to_json

    try:
        if isinstance(graph, FusionGraph):
            return json.dumps(to_json(graph), indent=1)
        if isinstance(graph, Mapping):
            return json.dumps(dict(graph), indent=1)
        if isinstance(graph, str) and graph.lstrip()[:1] in ("{", "["):
            return graph
        path = Path(str(graph))
        data = reading.content(path, MAX_FILE)
        if looks_like_onnx(data, str(path)):
            return json.dumps(to_json(read_graph(path)), indent=1)
        return data.decode("utf-8", errors="replace")
    except Exception as e:  # The failure to report may be the reason that this fails too.
        return f"the input cannot be shown: {e!r}\n"


def internal_error(
    error: Exception, *, source: str = "", options: Mapping[str, object] | None = None
) -> AutofuseError:
    """AF9001 for an exception that should not have happened; its note names the reproducer."""
    notes = []
    try:
        notes.append(f"reproducer: {artifacts.save_reproducer(error, source, options or {})}")
    except (OSError, AutofuseError) as e:
        notes.append(f"no reproducer could be written: {e}")
    if knobs.DEBUG.get():
        notes += artifacts.traceback_text(error).splitlines()
    found = Diagnostic(
        "AF9001",
        f"internal error: {type(error).__name__}: {error}",
        hint="please report this with that folder: it holds the graph, the options, the versions "
        "and the traceback",
        notes=tuple(notes),
    )
    return AutofuseError((found,))
