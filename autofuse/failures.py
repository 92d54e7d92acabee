"""Internal errors: a failure without a diagnostic is a bug of autofuse, AF9001, with a reproducer."""

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

#: Internal errors in this process for which autofuse fell back to something else: the first one is a warning.
_CUT_AROUND = itertools.count()


@contextmanager
def reporting_bugs(graph: object, options: Mapping[str, object]) -> Iterator[None]:
    """Turn an exception that is not a diagnostic into AF9001, with a reproducer on disk.

    Out of memory is not a bug, so MemoryError passes through; nor is a full disk.
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
    """Warn once per process that autofuse failed for a part and fell back to something else.

    Args:
        error: an internal error.
        instead: the fallback.

    Raises:
        AutofuseError: ``error`` itself, with ``AUTOFUSE_STRICT=1``.
    """
    if knobs.STRICT.get():
        raise error
    if next(_CUT_AROUND) == 0:
        found = error.diagnostics[0]
        words = "; ".join((found.message, *found.notes))
        text = (
            f"autofuse failed, and {instead} handles that part instead: {words}. This is said once; "
            f"{knobs.STRICT.name}=1 makes it an error"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def no_room(error: OSError) -> AutofuseError | None:
    """Return AF5005 if the disk or the user's quota is full; else None."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS):
        return None
    path = str(error.filename or "")
    text = f"a file cannot be written: {error.strerror}"
    return AutofuseError.of("AF5005", text, where=Where(path=path))


def _source(graph: object) -> str:
    """Return the source text that reproduces a failure."""
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
    except Exception as e:  # This may fail for the same reason as the failure to be reported.
        return f"the input cannot be shown: {e!r}\n"


def internal_error(
    error: Exception, *, source: str = "", options: Mapping[str, object] | None = None
) -> AutofuseError:
    """Return AF9001 for an unexpected exception; its note names the reproducer."""
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
