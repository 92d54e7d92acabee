"""Runs a verb: prints its outcome to the streams and returns the exit code."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.base.ending import EndedError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "FAILED",
    "INTERNAL",
    "OK",
    "Outcome",
    "StreamError",
    "execute",
    "open_streams",
    "report_failure",
    "stream_lost",
]

OK, FAILED, INTERNAL = 0, 1, 2

SCHEMA = "autofuse.cli/1"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a verb.

    Attributes:
        result: the value that ``--json`` prints under ``result``.
        show: prints the same as text.
        diagnostics: findings that did not stop the verb.
        ok: False gives exit code 1.
    """

    result: Mapping[str, object]
    show: Callable[[Console], None]
    diagnostics: tuple[Diagnostic, ...] = ()
    ok: bool = True


class StreamError(Exception):
    """The output of a command cannot be written; the text gives the reason."""


def open_streams() -> None:
    """Give a process without a standard stream one that refuses writes.

    Otherwise Python has None in its place, and the next opened file would get the stream's descriptor.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # noqa: PERF203 - three times
            os.open(os.devnull, os.O_RDONLY)  # gets the lowest free descriptor
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - stays open


@contextmanager
def _to_streams() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as e:
        raise StreamError(e.strerror or str(e)) from e


def stream_lost(why: str) -> int:
    """Report that output is lost, and return the exit code."""
    # Flushing the rest of the buffer would fail again at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    text = f"the output of the command cannot be written: {why}"
    with suppress(OSError):
        _print_diagnostics((Diagnostic("AF5005", text),))
        sys.stderr.flush()
        return FAILED
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    return FAILED


def execute(verb: str, action: Callable[[], Outcome], *, as_json: bool) -> int:
    """Run a verb and print its outcome.

    Returns:
        The exit code: 0 ok, 1 the input or the kernel is wrong, 2 autofuse is wrong, 128 plus the number of the signal
        that interrupted it.
    """
    try:
        try:
            outcome = action()
            return _print_outcome(verb, outcome, as_json)
        except AutofuseError as e:
            return report_failure(verb, e.diagnostics, as_json=as_json)
        except (BrokenPipeError, StreamError):
            raise
        except MemoryError as e:
            text = f"there is not enough memory{f': {e}' if str(e) else ''}"
            hint = "try smaller sizes"
            return report_failure(verb, (Diagnostic("AF5003", text, hint=hint),), as_json=as_json)
        except Exception as e:
            from autofuse.failures import internal_error, no_room

            found = no_room(e) if isinstance(e, OSError) else None
            if found is None:
                found = internal_error(e, options={"command": ["autofuse", *sys.argv[1:]]})
            return report_failure(verb, found.diagnostics, as_json=as_json)
    except StreamError as e:
        return stream_lost(str(e))
    except (EndedError, KeyboardInterrupt) as e:
        with suppress(OSError):
            sys.stderr.write("interrupted\n")
            if as_json:
                _print_json(verb, False, (), None)
                sys.stdout.flush()
        return 128 + (e.number if isinstance(e, EndedError) else signal.SIGINT)
    except BrokenPipeError:
        # The reader has gone (as in `autofuse dump x.json | head`): do not flush into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _print_outcome(verb: str, outcome: Outcome, as_json: bool) -> int:
    with _to_streams():
        if as_json:
            _print_json(verb, outcome.ok, outcome.diagnostics, outcome.result)
        else:
            from autofuse.report.text.console import console

            outcome.show(console())
            sys.stdout.flush()
            _print_diagnostics(outcome.diagnostics)
        sys.stdout.flush()
    return OK if outcome.ok else _failure_code(outcome.diagnostics)


def report_failure(verb: str, diagnostics: tuple[Diagnostic, ...], *, as_json: bool) -> int:
    """Print the error that stopped a verb, and return the exit code."""
    with _to_streams():
        if as_json:
            _print_json(verb, False, diagnostics, None)
        else:
            _print_diagnostics(diagnostics)
        sys.stdout.flush()
    return _failure_code(diagnostics)


def _failure_code(diagnostics: tuple[Diagnostic, ...]) -> int:
    return INTERNAL if any(d.code == "AF9001" for d in diagnostics) else FAILED


def _print_diagnostics(diagnostics: tuple[Diagnostic, ...]) -> None:
    if diagnostics:
        from autofuse.report.text.console import console
        from autofuse.report.text.diagnostics import print_diagnostics

        print_diagnostics(console(sys.stderr), diagnostics)


def _print_json(
    verb: str,
    ok: bool,
    diagnostics: tuple[Diagnostic, ...],
    result: Mapping[str, object] | None,
) -> None:
    envelope = {
        "schema": SCHEMA,
        "verb": verb,
        "ok": ok,
        "diagnostics": [d.to_json() for d in diagnostics],
        "result": result,
    }
    sys.stdout.write(json.dumps(envelope, indent=2, allow_nan=False) + "\n")
