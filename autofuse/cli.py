"""Frame of the command line: the verbs of ``autofuse.commands`` in order, and an exit code.

Nothing heavy is imported before a verb runs, so that ``--help`` and shell completion are quick.
Exit codes: 0 ok, 1 the input or the kernel is wrong, 2 internal error.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from autofuse import __version__
from autofuse.base.collecting import collect_rarely
from autofuse.base.diagnostics import Diagnostic
from autofuse.base.ending import EndedError, end_cleanly
from autofuse.commands import kernelgen
from autofuse.commands.chip import adopt, bench, calibrate, certify, import_msprof, silicon, tune
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

#: Purpose -> modules with a function ``register(app)``; help lists both in this order. The table is here and not in the
#: packages because their other modules also run in worker processes, which must not import the command line.
_VERBS: dict[str, tuple[ModuleType, ...]] = {
    "Write a graph": (new, schema, ops),
    "Check": (verify, run, certify),
    "Look inside": (show, explain, dump),
    "Ship": (build, adopt),
    "On a chip or a card": (bench, import_msprof, silicon, calibrate, tune),
    "Housekeeping": (targets, doctor, cache, knobs),
}
_SHIP = "Ship"


class Grouped(TyperGroup):
    """The verbs, grouped by purpose."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section of the help for each of :data:`_VERBS`."""
        verbs = [(name, verb) for name in self.list_commands(ctx) if (verb := self.commands[name])]
        width = max(len(name) for name, _ in verbs)
        for title in _VERBS:
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{name:{width}}", verb.get_short_help_str(formatter.width))
                        for name, verb in verbs
                        if getattr(verb, "rich_help_panel", None) == title
                    ]
                )


app = typer.Typer(
    name="autofuse",
    cls=Grouped,
    no_args_is_help=True,
    # Plain help: importing rich for it would take longer than everything else.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


app.add_typer(kernelgen.app, name="kernelgen", rich_help_panel=_SHIP)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"autofuse {__version__}")
        raise typer.Exit


@app.callback(
    epilog=examples(
        "autofuse new first          write a sample graph and its schema",
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


for _title, _modules in _VERBS.items():
    _known = len(app.registered_commands)
    for _module in _modules:
        _module.register(app)
    for _verb in app.registered_commands[_known:]:
        _verb.rich_help_panel = _title


def main(args: list[str] | None = None) -> int:
    """Run the command and return the exit code."""
    words = sys.argv[1:] if args is None else args
    if args is None:
        open_streams()
        collect_rarely()
        end_cleanly()
    try:
        code = int(app(words, prog_name="autofuse", standalone_mode=False) or OK)
        sys.stdout.flush()
        return code
    except OSError as e:  # --help and --version print before a verb runs.
        return stream_lost(e.strerror or str(e))
    except (EndedError, KeyboardInterrupt, typer.Abort) as e:
        with suppress(OSError):
            typer.echo("interrupted", err=True)
        return 128 + (e.number if isinstance(e, EndedError) else signal.SIGINT)
    except Exception as e:
        # The exception that typer raises for arguments it cannot parse; its class has moved between versions.
        message = getattr(e, "format_message", None)
        if not callable(message):
            raise
        try:
            return _misused(e, str(message()), words)
        except StreamError as lost:
            return stream_lost(str(lost))


def _misused(error: Exception, message: str, words: list[str]) -> int:
    """Report a command line that cannot be parsed; the user's error, so it exits with 1, not typer's 2."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(message)
        return OK
    path = context.command_path if context is not None else "autofuse"
    verb = path.partition(" ")[2]
    # Typer quotes the type of the exception that a choice raises.
    message = message.replace(": Value error, ", ": ")
    found = Diagnostic("AF1005", message, hint=f"{path} --help")
    report_failure(verb, (found,), as_json="--json" in words)
    return FAILED
