"""The frame of the command line: the verbs of ``autofuse.commands`` in their order, and an exit code.

Nothing heavy is imported before a verb runs, so that ``--help`` and shell completion are quick.
Exit codes: 0 ok, 1 the input or the kernel is wrong, 2 internal error.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from types import ModuleType
from typing import Annotated

import typer

from autofuse import __version__
from autofuse.base.collecting import collect_rarely
from autofuse.base.diagnostics import Diagnostic
from autofuse.base.ending import EndedError, end_cleanly
from autofuse.commands import chip, kernelgen
from autofuse.commands.environment import cache, doctor, knobs, targets
from autofuse.commands.graphs import dump, explain, new, ops, schema, show
from autofuse.commands.kernels import build, run, verify
from autofuse.commands.options import examples
from autofuse.commands.outcome import (
    FAILED,
    OK,
    StreamError,
    open_streams,
    report_failure,
    stream_lost,
)

__all__ = ["app", "main"]

#: With a function ``register(app)``, in the order in which help lists the verbs. Here and not in the packages,
#: whose other modules also run in worker processes: these import no command line.
_VERBS: tuple[ModuleType, ...] = (
    build,
    run,
    verify,
    dump,
    explain,
    show,
    schema,
    new,
    ops,
    targets,
    doctor,
    cache,
    knobs,
    chip,
)

app = typer.Typer(
    name="autofuse",
    no_args_is_help=True,
    # Plain help: importing rich for it would take longer than everything else.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


app.add_typer(kernelgen.app, name="kernelgen")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"autofuse {__version__}")
        raise typer.Exit


@app.callback(
    epilog=examples(
        "autofuse new first          write a graph to start from, and its schema",
        "autofuse verify first.json  generate, run on the twin, compare with NumPy",
        "autofuse build first.json   generate the Ascend C project",
    )
)
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Fuse operator graphs into Ascend C or Triton kernels; run them on a CPU twin, or on a card."""


for _verb in _VERBS:
    _verb.register(app)


def main(args: list[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    words = sys.argv[1:] if args is None else args
    if args is None:
        open_streams()
        collect_rarely()
        end_cleanly()
    try:
        code = int(app(words, prog_name="autofuse", standalone_mode=False) or OK)
        sys.stdout.flush()
        return code
    except OSError as e:  # Of --help and --version, which are printed before a verb runs.
        return stream_lost(e.strerror or str(e))
    except (EndedError, KeyboardInterrupt, typer.Abort) as e:
        with suppress(OSError):
            typer.echo("interrupted", err=True)
        return 128 + (e.number if isinstance(e, EndedError) else signal.SIGINT)
    except Exception as e:
        # What typer raises for words it does not understand; the class has moved between versions.
        message = getattr(e, "format_message", None)
        if not callable(message):
            raise
        try:
            return _misused(e, str(message()), words)
        except StreamError as lost:
            return stream_lost(str(lost))


def _misused(error: Exception, message: str, words: list[str]) -> int:
    """A command line that cannot be read is the user's error, so it exits with 1, not typer's 2."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(message)
        return OK
    path = context.command_path if context is not None else "autofuse"
    verb = path.partition(" ")[2]
    found = Diagnostic("AF1005", message, hint=f"{path} --help")
    report_failure(verb, (found,), as_json="--json" in words)
    return FAILED
