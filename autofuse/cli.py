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
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.base.ending import EndedError, end_cleanly
from autofuse.commands import chip, kernelgen
from autofuse.commands.options import (
    DEFAULT_TARGET,
    Against,
    CheckMode,
    CheckSeed,
    ChipDevice,
    Device,
    Graph,
    Invariant,
    Json,
    Partition,
    Scheduler,
    Seed,
    Split,
    Target,
    Tuning,
)
from autofuse.commands.options import examples as _examples
from autofuse.commands.options import path as _path
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

app = typer.Typer(
    name="autofuse",
    no_args_is_help=True,
    # Plain help: importing rich for it would take longer than everything else.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


class Flow(str, Enum):
    """Whose files a build makes, where they are not its own."""

    akg = "akg"


class KernelJson(str, Enum):
    """Keys of the JSON beside a binary."""

    upstream = "upstream"
    document = "document"


app.add_typer(kernelgen.app, name="kernelgen")


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
    """Fuse operator graphs into Ascend C or Triton kernels; run them on a CPU twin, or on a card."""


@app.command(
    epilog=_examples(
        "autofuse build first.json",
        "autofuse build first.json -o out --target ascend910b2",
        "autofuse build first.json -t nvidia-h100    a module of Triton kernels",
        "autofuse build first.json -t nvidia-h100 --tuning blocks.json",
        "autofuse build first.json -t cpu            C++ loops with OpenMP",
        "autofuse build first.json --entry op-package --ub 65536",
        "autofuse build first.json --entry torch     an operator of PyTorch",
        "autofuse build y.json --entry torch --backward grad.json",
        "autofuse build large.json --split -o out",
        "autofuse build first.json --invariant       bits of a row whatever the batch",
        "autofuse build graphs/ -o out --jobs 2",
        "autofuse build model.onnx -o out         one kernel, or those of a network",
        "autofuse build fused.info --flow akg -t gpu    PTX and JSON as of AKG",
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
            help="launch: a library with C functions; op-package: a custom operator project of CANN; "
            "torch: an extension of PyTorch. "
            "Of Triton: launch; plain: kernel[grid](...), the form of the operators of FlagGems.",
        ),
    ] = "launch",
    ub: Annotated[
        int | None,
        typer.Option("--ub", metavar="BYTES", help="UB that the kernel may use.  [default: all]"),
    ] = None,
    backward: Annotated[
        Path | None,
        typer.Option(
            "--backward",
            parser=_path,
            metavar="GRAPH",
            help="For --entry torch: the graph of the gradient.",
        ),
    ] = None,
    split: Split = False,
    invariant: Invariant = False,
    tuning: Tuning = None,
    partition: Partition = None,
    flow: Annotated[
        Flow | None,
        typer.Option(
            "--flow",
            help="Make what MindSpore AKG makes; -t also takes gpu, ascend.",
            show_default=False,
        ),
    ] = None,
    kernel_json: Annotated[
        KernelJson | None,
        typer.Option(
            "--kernel-json",
            help="Keys of the flow's JSON: AKG's own, or its description's.  [default: upstream]",
            show_default=False,
        ),
    ] = None,
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
    """Generate kernels of a graph: Ascend C, or Triton.

    For a GPU (-t nvidia-h100) it is a module of Triton kernels, as many as the graph needs.
    Of a folder, every graph in it gets a project of its own, at the same place inside DIR. Where
    CANN is installed (ASCEND_HOME_PATH), it is compiled for the chip too. A graph that is too much
    for one kernel is refused, and the message says where to cut it; --split cuts it there. Of an
    ONNX model that is more than one kernel, every region that can be fused gets one. With
    --flow akg a graph becomes what AKG's command makes of it: for a GPU, PTX and its JSON.
    """

    def action() -> Outcome:
        if flow is not None:
            from autofuse.commands.akg import build_akg

            return build_akg(
                graph,
                output,
                target=target,
                keys=kernel_json.value if kernel_json is not None else None,
                ub_bytes=ub,
                tuning=tuning,
                refused={
                    "--split": split,
                    "--partition": partition,
                    "--entry": None if entry == "launch" else entry,
                    "--invariant": invariant,
                    "--backward": backward,
                },
                force=force,
                jobs=jobs,
                quiet=json,
                verbose=verbose,
            )
        from autofuse.commands.build import build, build_many, only_of_flows

        only_of_flows({"--kernel-json": kernel_json})
        if graph.is_dir() and not partition:
            if tuning is not None:
                text = "a tuning file is for one graph"
                raise AutofuseError.of("AF5007", text, hint="--tuning goes with one graph file")
            if backward is not None:
                text = "a graph of a gradient is for one graph"
                raise AutofuseError.of("AF5007", text, hint="--backward goes with one graph file")
            return build_many(
                graph,
                output,
                target=target,
                entry=entry,
                ub_bytes=ub,
                split=split,
                invariant=invariant,
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
            invariant=invariant,
            tuning=tuning,
            backward=backward,
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
        "autofuse run first.json --tuning first.tuning.json",
        "autofuse run first.json -t nvidia-h100      in Triton's interpreter",
        "autofuse run first.json -t cpu              C++ loops on this machine",
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
    against: Against = None,
    split: Split = False,
    invariant: Invariant = False,
    tuning: Tuning = None,
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
    check: CheckMode = None,
    check_seed: CheckSeed = 0,
    device: ChipDevice = "cpu",
    target: Target = DEFAULT_TARGET,
    json: Json = False,
) -> None:
    """Run the kernel once and compare it with NumPy.

    Kernels of Ascend C run on the CPU twin, or with --device npu:0 on a chip. Those of Triton
    (-t nvidia-h100) run in its interpreter, or with --device cuda on a card. GRAPH may be a folder
    that build wrote. Of an ONNX model that is
    more than one kernel, the regions that can be fused run on the twin and the rest by
    onnx.reference, which all of it is compared with. With --trace or --html the run is timed by a
    model of the chip: clocks of every pipe, what each waits for, and the critical path. No time is
    measured.
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
            invariant=invariant,
            tuning=tuning,
            target=target,
            check=None if check is None else check.value,
            check_seed=check_seed,
            device=device,
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
        "autofuse verify out                        a folder that build wrote",
        "autofuse verify first.json -t nvidia-h100  in Triton's interpreter",
        "autofuse verify first.json -t nvidia-h100 --tuning blocks.json",
        "autofuse verify first.json -t cpu          C++ loops on this machine",
        "autofuse verify first.json -t nvidia-h100 --device cuda  on a card",
        "autofuse verify graphs/ --scheduler tcp://host:8786  on workers of Dask",
    )
)
def verify(
    graphs: Annotated[
        list[Path],
        typer.Argument(
            parser=_path,
            metavar="GRAPH_OR_DIR...",
            help="Graph files, folders of them, or folders that build wrote.",
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
    invariant: Invariant = False,
    tuning: Tuning = None,
    against: Against = None,
    check: CheckMode = None,
    check_seed: CheckSeed = 0,
    device: Device = "cpu",
    scheduler: Scheduler = None,
    target: Target = DEFAULT_TARGET,
    json: Json = False,
) -> None:
    """Run with random data, compare with NumPy.

    Kernels of Ascend C run on the CPU twin. Those of Triton (-t nvidia-h100) run in its interpreter,
    with --device on a card. Every element of every output is compared, at several shapes of a
    symbolic graph. A graph with a tensor of more than 2^20 elements (2^16 for the interpreter) is
    built, and shrunk before it runs. Exit code 1 if a graph fails, or none passes; graphs with an op
    that autofuse does not know are counted apart.
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
            invariant=invariant,
            check=None if check is None else check.value,
            check_seed=check_seed,
            device=device,
            quiet=json,
            tuning=tuning,
            scheduler=scheduler,
            against=against,
        )

    _finish("verify", action, json)


@app.command(
    epilog=_examples(
        "autofuse dump first.json",
        "autofuse dump first.json --stage hint",
        "autofuse dump first.json --stage impl --template 1",
        "autofuse dump first.json --stage files",
        "autofuse dump first.json -t nvidia-h100    its Triton kernels",
    )
)
def dump(
    graph: Graph,
    stage: Annotated[
        str | None,
        typer.Option(
            "--stage",
            help="fusion, hint, impl, kernel or files.  [default: impl; files for a GPU]",
            show_default=False,
        ),
    ] = None,
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
        "autofuse explain out                       a folder that build wrote",
        "autofuse explain first.json -t nvidia-h100 --tuning-out blocks.json",
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
    tuning: Tuning = None,
    tuning_out: Annotated[
        Path | None,
        typer.Option(
            "--tuning-out",
            parser=_path,
            metavar="FILE",
            help="For a GPU: write the blocks that were taken, to change and give to --tuning.",
        ),
    ] = None,
    target: Target = DEFAULT_TARGET,
    json: Json = False,
) -> None:
    """Show the templates of a graph, with modelled times.

    What limits each template, why some are not taken, and what is where in UB. All times are those
    of a model of the chip, none is measured. For a GPU it lists the kernels with their blocks, the
    bytes that they have to move, and the time of each by a model of the card.
    """

    def action() -> Outcome:
        from autofuse.commands.explain import explain

        return explain(
            graph,
            shapes=shape or [],
            target=target,
            page=html,
            tuning=tuning,
            tuning_out=tuning_out,
        )

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
    """Summarise a graph: inputs, outputs, ops, sizes; or draw it."""

    def action() -> Outcome:
        from autofuse.commands.inspect import show

        return show(graph, output)

    _finish("show", action, json)


@app.command(
    epilog=_examples(
        "autofuse schema > graph.schema.json",
        "autofuse schema --tuning > tuning.schema.json",
        "autofuse schema --results               of what bench --out writes",
        "autofuse schema --bundle                of what silicon writes",
        "autofuse schema --certificate            of what certify writes",
        "autofuse schema --kernel-json upstream   of what build --flow akg writes",
    )
)
def schema(
    tuning: Annotated[
        bool, typer.Option("--tuning", help="Of tuning files, with tilings, or blocks for a GPU.")
    ] = False,
    results: Annotated[
        bool, typer.Option("--results", help="Of files of results, with measured times.")
    ] = False,
    bundle: Annotated[
        bool, typer.Option("--bundle", help="Of bundles, with what the kit found on a chip.")
    ] = False,
    certificate: Annotated[
        bool, typer.Option("--certificate", help="Of the certificate of a kernel.")
    ] = False,
    kernel_json: Annotated[
        KernelJson | None,
        typer.Option(
            "--kernel-json", help="Of a flow's JSON, with these keys.", show_default=False
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Wrap it in the object that the other verbs print.")
    ] = False,
) -> None:
    """Print the JSON Schema of graph or other files."""

    def action() -> Outcome:
        from autofuse.commands.author import schema

        keys = None if kernel_json is None else kernel_json.value
        return schema(
            tuning=tuning,
            results=results,
            bundle=bundle,
            certificate=certificate,
            kernel_json=keys,
        )

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


@app.command(
    epilog=_examples(
        "autofuse targets",
        "autofuse targets ascend910b2",
        "autofuse targets nvidia-h100",
        "autofuse targets mine.toml              a target file of one's own",
    )
)
def targets(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|FILE.toml]", help="Every figure of this one."),
    ] = None,
    json: Json = False,
) -> None:
    """List the chips and GPUs, or all figures of one.

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
    """Check this machine: compiler, twin, CANN, Triton, cache."""

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


# Behind the verbs that need no chip, in help as well.
chip.register(app)


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
