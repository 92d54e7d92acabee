"""The command line: words in, one call of ``autofuse.commands`` per verb, an exit code out.

Nothing heavy is imported before a verb runs, so that ``--help`` and shell completion are quick.
Exit codes: 0 ok, 1 the input or the kernel is wrong, 2 internal error.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autofuse import __version__
from autofuse.base.collecting import collect_rarely
from autofuse.base.diagnostics import Diagnostic
from autofuse.base.ending import EndedError, end_cleanly
from autofuse.commands.outcome import (
    FAILED,
    OK,
    StreamError,
    execute,
    open_streams,
    report_failure,
    stream_lost,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from autofuse.commands.outcome import Outcome

__all__ = ["app", "main"]

DEFAULT_TARGET = "ascend910b1"

app = typer.Typer(
    name="autofuse",
    no_args_is_help=True,
    # Plain help: importing rich for it would take longer than everything else.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _examples(*lines: str) -> str:
    # \b keeps the help formatter from joining the lines.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _path(text: str) -> Path:
    """A path of the command line; an empty one, as a script's unset variable leaves, is not the current folder."""
    if not str(text):
        raise typer.BadParameter("the path is empty; write . for the current folder")
    return Path(text)


Graph = Annotated[
    Path, typer.Argument(parser=_path, metavar="GRAPH", help="The graph file (JSON or ONNX).")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Target = Annotated[str, typer.Option("--target", "-t", help="The chip; see: autofuse targets.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random data.")]


class Check(str, Enum):
    """What the twin looks at."""

    all = "all"
    fast = "fast"


Split = Annotated[
    bool,
    typer.Option(
        "--split", help="Several kernels and a driver, if the graph is too large for one."
    ),
]
Partition = Annotated[
    bool | None,
    typer.Option(
        "--partition/--no-partition",
        help="An ONNX model as several regions, or as one kernel.  [default: one if it can be]",
        show_default=False,
    ),
]
CheckMode = Annotated[
    Check, typer.Option("--check", help="all: also races, uninitialised data, double stores.")
]
CheckSeed = Annotated[
    int,
    typer.Option(
        "--check-seed",
        min=0,
        max=(1 << 64) - 1,
        help="Order of instructions; 0: program order, else adversarial.",
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"autofuse {__version__}")
        raise typer.Exit


@app.callback(
    epilog=_examples(
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
    """Fuse operator graphs into Ascend C kernels, and run them on a CPU twin of the device."""


@app.command(
    epilog=_examples(
        "autofuse build first.json",
        "autofuse build first.json -o out --target ascend910b2",
        "autofuse build first.json --entry op-package --ub 65536",
        "autofuse build large.json --split -o out",
        "autofuse build graphs/ -o out --jobs 2",
        "autofuse build model.onnx -o out         one kernel, or those of a network",
        "autofuse build first.json --json | jq .result.templates",
    )
)
def build(
    graph: Annotated[
        Path,
        typer.Argument(
            parser=_path,
            metavar="GRAPH",
            help="The graph file (JSON or ONNX), or a folder of them.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=_path,
            metavar="DIR",
            help="Where to write.  [default: autofuse-out/NAME]",
        ),
    ] = None,
    target: Target = DEFAULT_TARGET,
    entry: Annotated[
        str,
        typer.Option(
            "--entry",
            help="launch: tiling data by value, <<<>>>; op-package: in GM, for a custom-op project.",
        ),
    ] = "launch",
    ub: Annotated[
        int | None,
        typer.Option("--ub", metavar="BYTES", help="UB that the kernel may use.  [default: all]"),
    ] = None,
    split: Split = False,
    partition: Partition = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite files that were edited or are not ours.")
    ] = False,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Graphs at a time; 0: one per core.")
    ] = 0,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List the files of a graph.")
    ] = False,
    json: Json = False,
) -> None:
    """Generate the Ascend C project of a graph.

    Of a folder, every graph in it gets a project of its own, at the same place inside DIR. Where
    CANN is installed (ASCEND_HOME_PATH), it is compiled for the chip too. A graph that is too much
    for one kernel is refused, and the message says where to cut it; --split cuts it there. Of an
    ONNX model that is more than one kernel, every region that can be fused gets one.
    """

    def action() -> Outcome:
        from autofuse.commands.build import build, build_many

        if graph.is_dir() and not partition:
            return build_many(
                graph,
                output,
                target=target,
                entry=entry,
                ub_bytes=ub,
                split=split,
                force=force,
                jobs=jobs,
                quiet=json,
            )
        return build(
            graph,
            output,
            target=target,
            entry=entry,
            ub_bytes=ub,
            split=split,
            partition=partition,
            force=force,
            quiet=json,
            verbose=verbose,
        )

    _finish("build", action, json)


@app.command(
    epilog=_examples(
        "autofuse run first.json",
        "autofuse run first.json --shape rows=1000 --seed 7",
        "autofuse run first.json --input x=x.npy --save out",
        "autofuse run first.json --key 1",
        "autofuse run first.json --trace trace.json   times of a model, Perfetto",
        "autofuse run first.json --html times.html    the same as a page",
        "autofuse run out                             a folder, edited or not",
        "autofuse run out --against first.json        what it computes after an edit",
        "autofuse run model.onnx --shape batch=3      a network, or one kernel",
    )
)
def run(
    graph: Graph,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", "-s", metavar="SYMBOL=N", help="Size of a symbol. Repeatable."),
    ] = None,
    seed: Seed = 0,
    key: Annotated[
        int | None,
        typer.Option("--key", help="Force this tiling key instead of the host's choice."),
    ] = None,
    input: Annotated[
        list[str] | None,
        typer.Option(
            "--input", "-i", metavar="NAME=FILE", help="Data from a .npy file. Repeatable."
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save", parser=_path, metavar="DIR", help="Write every output to DIR as .npy."
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            parser=_path,
            metavar="FILE",
            help="Write modelled times as a Chrome trace, or as .html.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", parser=_path, metavar="FILE", help="Write modelled times as one HTML page."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            parser=_path,
            metavar="GRAPH_FILE",
            help="Compare with what this graph computes, after an edit of the kernel.",
        ),
    ] = None,
    split: Split = False,
    partition: Partition = None,
    rtol: Annotated[
        float | None,
        typer.Option("--rtol", min=0, help="Of a model: relative tolerance.  [default: 0.001]"),
    ] = None,
    atol: Annotated[
        float | None,
        typer.Option(
            "--atol",
            min=0,
            help="Of a model: tolerance relative to the largest element.  [default: 0.00001]",
        ),
    ] = None,
    check: CheckMode = Check.fast,
    check_seed: CheckSeed = 0,
    target: Target = DEFAULT_TARGET,
    json: Json = False,
) -> None:
    """Run the kernel once on the CPU twin and compare it with NumPy.

    GRAPH may be a folder that build wrote. Of an ONNX model that is more than one kernel, the regions
    that can be fused run on the twin and the rest by onnx.reference, which all of it is compared
    with. With --trace or --html the run is timed by a model of the chip: clocks of every pipe, what
    each waits for, and the critical path. No time is measured.
    """

    def action() -> Outcome:
        from autofuse.commands.run import run

        return run(
            graph,
            shapes=shape or [],
            seed=seed,
            key=key,
            inputs=input or [],
            save=save,
            split=split,
            target=target,
            check=check.value,
            check_seed=check_seed,
            against=against,
            trace=trace,
            page=html,
            partition=partition,
            rtol=rtol,
            atol=atol,
            quiet=json,
        )

    _finish("run", action, json)


@app.command(
    epilog=_examples(
        "autofuse verify first.json",
        "autofuse verify first.json --shapes 10 --seed 7",
        "autofuse verify graphs/ --jobs 4",
        "autofuse verify graphs/ --json > report.json",
        "autofuse verify large.json --split",
    )
)
def verify(
    graphs: Annotated[
        list[Path],
        typer.Argument(
            parser=_path, metavar="GRAPH_OR_DIR...", help="Graph files, or folders of them."
        ),
    ],
    shapes: Annotated[
        int, typer.Option("--shapes", min=1, help="Different shapes to try, for symbolic graphs.")
    ] = 4,
    seed: Seed = 0,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Graphs at a time; 0: one per core.")
    ] = 0,
    symbolic: Annotated[
        bool, typer.Option("--symbolic", help="Make fixed sizes symbols first, to try others.")
    ] = False,
    split: Split = False,
    check: CheckMode = Check.all,
    check_seed: CheckSeed = 0,
    target: Target = DEFAULT_TARGET,
    json: Json = False,
) -> None:
    """Run on the CPU twin with random data, compare with NumPy.

    Every element of every output is compared, at several shapes of a symbolic graph. A graph with a
    tensor of more than 2^20 elements is built, and shrunk before it runs. Exit code 1 if a graph
    fails, or none passes; graphs with an op that autofuse does not know are counted apart.
    """

    def action() -> Outcome:
        from autofuse.commands.verify import verify

        return verify(
            graphs,
            shapes=shapes,
            seed=seed,
            jobs=jobs,
            target=target,
            symbolic=symbolic,
            split=split,
            check=check.value,
            check_seed=check_seed,
            quiet=json,
        )

    _finish("verify", action, json)


@app.command(
    epilog=_examples(
        "autofuse dump first.json",
        "autofuse dump first.json --stage hint",
        "autofuse dump first.json --stage impl --template 1",
        "autofuse dump first.json --stage files",
    )
)
def dump(
    graph: Graph,
    stage: Annotated[
        str, typer.Option("--stage", help="fusion, hint, impl, kernel or files.")
    ] = "impl",
    template: Annotated[
        int | None, typer.Option("--template", metavar="KEY", help="Only this tiling key.")
    ] = None,
    target: Target = DEFAULT_TARGET,
    json: Json = False,
) -> None:
    """Print the IR after a stage."""

    def action() -> Outcome:
        from autofuse.commands.inspect import dump

        return dump(graph, stage=stage, template=template, target=target)

    _finish("dump", action, json)


@app.command(
    epilog=_examples(
        "autofuse explain first.json",
        "autofuse explain first.json --shape rows=4096 --target ascend910b4",
        "autofuse explain first.json --html explained.html",
        "autofuse explain first.json --json | jq .result.total_us",
    )
)
def explain(
    graph: Graph,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", "-s", metavar="SYMBOL=N", help="Size of a symbol. Repeatable."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", parser=_path, metavar="FILE", help="Write the same as one HTML page."
        ),
    ] = None,
    target: Target = DEFAULT_TARGET,
    json: Json = False,
) -> None:
    """Show the templates of a graph, with modelled times.

    What limits each template, why some are not taken, and what is where in UB. All times are those
    of a model of the chip, none is measured.
    """

    def action() -> Outcome:
        from autofuse.commands.explain import explain

        return explain(graph, shapes=shape or [], target=target, page=html)

    _finish("explain", action, json)


@app.command(epilog=_examples("autofuse show first.json", "autofuse show first.json -o g.svg"))
def show(
    graph: Graph,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", parser=_path, metavar="FILE.svg", help="Draw a picture."),
    ] = None,
    json: Json = False,
) -> None:
    """Summarise a graph: inputs, outputs, ops, sizes; draw it with -o."""

    def action() -> Outcome:
        from autofuse.commands.inspect import show

        return show(graph, output)

    _finish("show", action, json)


@app.command(epilog=_examples("autofuse schema > graph.schema.json"))
def schema(
    json: Annotated[
        bool, typer.Option("--json", help="Wrap it in the object that the other verbs print.")
    ] = False,
) -> None:
    """Print the JSON Schema of graph files."""

    def action() -> Outcome:
        from autofuse.commands.author import schema

        return schema()

    _finish("schema", action, json)


@app.command(epilog=_examples("autofuse new first", "autofuse new first -o graphs"))
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the graph.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", parser=_path, metavar="DIR", help="The folder to write into."
        ),
    ] = Path(),
    json: Json = False,
) -> None:
    """Write a graph to start from.

    Beside NAME.json goes graph.schema.json, so that editors complete and check the file.
    """

    def action() -> Outcome:
        from autofuse.commands.author import new

        return new(name, output)

    _finish("new", action, json)


@app.command(
    epilog=_examples(
        "autofuse ops",
        "autofuse ops Softmax",
        "autofuse ops Softmax --json | jq .result.example > softmax.json",
    )
)
def ops(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="All about this one.")
    ] = None,
    json: Json = False,
) -> None:
    """List the ops of graph files, or describe one.

    Of one: attributes, how each chip computes which dtype, accuracy, other names, and a graph that
    can be built.
    """

    def action() -> Outcome:
        from autofuse.commands.ops import ops

        return ops(name)

    _finish("ops", action, json)


@app.command(epilog=_examples("autofuse targets", "autofuse targets ascend910b2"))
def targets(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Every figure of this one.")
    ] = None,
    json: Json = False,
) -> None:
    """List the chips, or all figures of one.

    Every figure has a status (measured, vendor, fitted, modelled, assumed) and a source.
    """

    def action() -> Outcome:
        from autofuse.commands.machine import targets

        return targets(name)

    _finish("targets", action, json)


@app.command(
    epilog=_examples("autofuse doctor", 'cmake -DTWIN="$(autofuse doctor --twin-dir)" ...')
)
def doctor(
    twin_dir: Annotated[
        bool, typer.Option("--twin-dir", help="Print the folder of the twin's CMake package.")
    ] = False,
    json: Json = False,
) -> None:
    """Check what this machine has: compiler, twin, CANN, cache."""

    def action() -> Outcome:
        from autofuse.commands.machine import doctor, twin_folder

        return twin_folder() if twin_dir else doctor()

    _finish("doctor", action, json)


class CacheAction(str, Enum):
    """What to do with the cache."""

    info = "info"
    clear = "clear"


@app.command(epilog=_examples("autofuse cache info", "autofuse cache clear"))
def cache(
    action: Annotated[
        CacheAction, typer.Argument(metavar="info|clear", help="Say what it holds, or empty it.")
    ],
    json: Json = False,
) -> None:
    """Show or empty the cache of compiled kernels."""

    def run() -> Outcome:
        from autofuse.commands import cache

        return cache.info() if action is CacheAction.info else cache.clear()

    _finish("cache", run, json)


@app.command(epilog=_examples("autofuse knobs", "AUTOFUSE_DEBUG=1 autofuse build first.json"))
def knobs(json: Json = False) -> None:
    """List the environment variables that autofuse reads."""

    def action() -> Outcome:
        from autofuse.commands.machine import show_knobs

        return show_knobs()

    _finish("knobs", action, json)


def _finish(verb: str, action: Callable[[], Outcome], as_json: bool) -> None:
    raise typer.Exit(execute(verb, action, as_json=as_json))


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
