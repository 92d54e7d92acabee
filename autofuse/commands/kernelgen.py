"""``kernelgen``: an operator in five stages, each a verb (definition, files, tests, tuning, log), and all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.commands import completing
from autofuse.commands.options import Device, Json, examples, path
from autofuse.commands.outcome import Outcome, execute

if TYPE_CHECKING:
    from rich.console import Console

    from autofuse.clients.kernelgen.defining.definition import Definition
    from autofuse.clients.kernelgen.stages import Options, Result

__all__ = ["app"]

DEFAULT_TARGET = "nvidia-h100"
#: Parent of the output folders, unless -o names another one.
OUTPUT = "kernelgen-out"

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Generate an operator in five stages, from definition to log.",
    epilog=examples(
        "autofuse kernelgen run graph.json                all five stages",
        "autofuse kernelgen describe graph.json           1: the definition",
        "autofuse kernelgen generate kernelgen-out/graph  2: kernel, baseline, two tests",
        "autofuse kernelgen check kernelgen-out/graph     3: accuracy and speed",
        "autofuse kernelgen tune kernelgen-out/graph      4: up to five rounds",
        "autofuse kernelgen log kernelgen-out/graph       5: optimization_log.md",
    ),
)


class Names(str, Enum):
    """Naming of the files."""

    kernelgen = "kernelgen"
    document = "document"


Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A graph file (JSON, AKG info, ONNX), file.py:name of a PyTorch function or module, "
        "or a line of English.",
    ),
]
FolderOrSource = Annotated[
    str,
    typer.Argument(
        metavar="FOLDER|SOURCE", help="Folder that describe wrote, or a source for describe."
    ),
]
Folder = Annotated[
    Path, typer.Argument(parser=path, metavar="FOLDER", help="Folder that describe wrote.")
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="NAME=DTYPE[SIZES]",
        help="For a PyTorch function: an example input, such as x=float16[b,4096]. Repeatable.",
    ),
]
Target = Annotated[
    str,
    typer.Option(
        "--target",
        "-t",
        help="GPU or chip; see: autofuse targets.",
        autocompletion=completing.targets,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        parser=path,
        metavar="DIR",
        help=f"Where to write.  [default: {OUTPUT}/NAME]",
        show_default=False,
    ),
]
Named = Annotated[
    Names,
    typer.Option("--names", help="Names and layout of the files: KernelGen's, or the document's."),
]
AscendC = Annotated[
    bool, typer.Option("--ascendc", help="Also write an Ascend C variant, in a folder ascendc.")
]
Rounds = Annotated[
    int | None,
    typer.Option(
        "--rounds",
        min=1,
        max=5,
        help="Maximum rounds of tuning.  [default: from the definition]",
        show_default=False,
    ),
]
Speedup = Annotated[
    float,
    typer.Option(
        "--speedup", help="Target speedup over the baseline; tuning stops when it is exceeded."
    ),
]
Memory = Annotated[
    int,
    typer.Option(
        "--memory", min=1, metavar="GIB", help="Memory of the device, which limits the timed sizes."
    ),
]
Patterns = Annotated[
    Path | None,
    typer.Option(
        "--patterns",
        parser=path,
        metavar="FILE",
        help="Patterns that helped in earlier runs; updated.  [default: patterns.json beside the folder]",
        show_default=False,
    ),
]
Results = Annotated[
    list[Path] | None,
    typer.Option(
        "--results",
        parser=path,
        metavar="FILE",
        help="Times measured on another machine by NAME_performance.py --results. Repeatable.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the accuracy test's data.")]
Force = Annotated[
    bool,
    typer.Option("--force", help="Run a stage even if it is up to date; replace edited files."),
]


@app.command(
    epilog=examples(
        "autofuse kernelgen describe graph.json",
        "autofuse kernelgen describe model.py:block -i 'x=float16[b,4096]'",
        'autofuse kernelgen describe "softmax over axis 1 of x float16 [b, 64]"',
        "autofuse kernelgen describe graph.json -o op --names document --speedup 1.2",
    )
)
def describe(
    source: Source,
    input: Inputs = None,
    target: Target = DEFAULT_TARGET,
    output: Output = None,
    names: Named = Names.kernelgen,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, max=5, help="Maximum rounds of tuning.")
    ] = 5,
    speedup: Speedup = 1.0,
    memory: Memory = 16,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write the definition of an operator, for people and as JSON.

    It lists inputs and outputs, cost, the bottleneck on the target, and possible optimisations.
    """

    def action() -> Outcome:
        from autofuse.clients.kernelgen import stages

        found = _described(source, input or (), target, rounds, speedup, memory)
        options = _options(_folder(output, found), json, names=names.value, force=force)
        return _outcome([stages.describe(found, options)], options)

    _finish("describe", action, json)


@app.command(
    epilog=examples(
        "autofuse kernelgen generate kernelgen-out/graph",
        "autofuse kernelgen generate graph.json            describe it first",
        "autofuse kernelgen generate kernelgen-out/graph --ascendc",
    )
)
def generate(
    context: typer.Context,
    source: FolderOrSource,
    input: Inputs = None,
    target: Target = DEFAULT_TARGET,
    output: Output = None,
    names: Named = Names.kernelgen,
    ascendc: AscendC = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write kernel, baseline, accuracy test and speed test.

    Kernel and baseline each define one function, with the same name and parameters. The interfaces of
    the files are compared by their syntax trees; exit code 1 on a mismatch.
    """

    def action() -> Outcome:
        from autofuse.clients.kernelgen import stages

        if _is_folder(source):
            _refuse_what_is_described(context)
            options = _options(Path(source), json, ascendc=ascendc, force=force)
            return _outcome([stages.generate(options)], options)
        found = _described(source, input or (), target)
        options = _options(
            _folder(output, found), json, names=names.value, ascendc=ascendc, force=force
        )
        first = stages.describe(found, options)
        return _outcome([first, stages.generate(options)], options)

    _finish("generate", action, json)


@app.command(
    epilog=examples(
        "autofuse kernelgen check kernelgen-out/graph",
        "autofuse kernelgen check kernelgen-out/graph --device cuda   with times",
    )
)
def check(
    folder: Folder,
    device: Device = "cpu",
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run the accuracy test and the speed test.

    Every element is compared with NumPy in higher precision and with the baseline, at several sizes,
    with strided inputs, NaN and infinities. On a card, kernel and baseline are timed; without one, a
    model predicts the times. Exit code 1 if the accuracy test fails.
    """

    def action() -> Outcome:
        from autofuse.clients.kernelgen import stages

        options = _options(folder, json, device=device, seed=seed, force=force)
        return _outcome([stages.check(options)], options)

    _finish("check", action, json)


@app.command(
    epilog=examples(
        "autofuse kernelgen tune kernelgen-out/graph",
        "autofuse kernelgen tune kernelgen-out/graph --device cuda --rounds 3",
        "autofuse kernelgen tune kernelgen-out/graph --patterns helped.json",
        "autofuse kernelgen tune kernelgen-out/graph --results measured.json",
    )
)
def tune(
    folder: Folder,
    device: Device = "cpu",
    seed: Seed = 0,
    rounds: Rounds = None,
    patterns: Patterns = None,
    results: Results = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Tune the kernel, one family of settings per round.

    The bottleneck selects the family. The fastest setting that passes the accuracy test is kept; times
    are measured on a card, or predicted by the model of the target. Tuning ends when the speedup is
    reached or no family is left. If interrupted, it resumes after the last round.
    """

    def action() -> Outcome:
        from autofuse.clients.kernelgen import stages

        options = _options(
            folder,
            json,
            device=device,
            seed=seed,
            rounds=rounds,
            patterns=patterns,
            results=tuple(results or ()),
            force=force,
        )
        return _outcome([stages.tune(options)], options)

    _finish("tune", action, json)


@app.command(
    epilog=examples(
        "autofuse kernelgen log kernelgen-out/graph",
        "autofuse kernelgen log kernelgen-out/graph --profile    with counters",
    )
)
def log(
    folder: Folder,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Measure cache hits and multiprocessor use with Nsight Compute (ncu).",
        ),
    ] = False,
    results: Results = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write optimization_log.md from the records of the other stages.

    Every number is marked as measured, predicted, or from the interpreter. Numbers that were not
    recorded are left out.
    """

    def action() -> Outcome:
        from autofuse.clients.kernelgen import stages

        options = _options(folder, json, profile=profile, results=tuple(results or ()), force=force)
        return _outcome([stages.log(options)], options)

    _finish("log", action, json)


@app.command(
    epilog=examples(
        "autofuse kernelgen run graph.json",
        "autofuse kernelgen run graph.json --device cuda -o out/op",
        "autofuse kernelgen run graph.json --speedup 2 --json",
        "autofuse kernelgen run kernelgen-out/graph    continue it",
    )
)
def run(
    context: typer.Context,
    source: FolderOrSource,
    input: Inputs = None,
    target: Target = DEFAULT_TARGET,
    output: Output = None,
    names: Named = Names.kernelgen,
    ascendc: AscendC = False,
    device: Device = "cpu",
    seed: Seed = 0,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, max=5, help="Maximum rounds of tuning.")
    ] = 5,
    speedup: Speedup = 1.0,
    memory: Memory = 16,
    patterns: Patterns = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run all five stages.

    Stages that are up to date are skipped, so the same command continues an interrupted run.
    """

    def action() -> Outcome:
        from autofuse.clients.kernelgen import stages

        more: dict[str, Any] = {
            "ascendc": ascendc,
            "device": device,
            "seed": seed,
            "patterns": patterns,
            "force": force,
        }
        results = []
        if _is_folder(source):
            _refuse_what_is_described(context)
            options = _options(Path(source), json, **more)
        else:
            found = _described(source, input or (), target, rounds, speedup, memory)
            options = _options(_folder(output, found), json, names=names.value, **more)
            results.append(stages.describe(found, options))
        for stage in (stages.generate, stages.check, stages.tune, stages.log):
            results.append(stage(options))
            if not results[-1].ok:
                break
        return _outcome(results, options)

    _finish("run", action, json)


def _described(
    source: str,
    inputs: Sequence[str],
    target: str,
    rounds: int = 5,
    speedup: float = 1.0,
    memory: int = 16,
) -> Definition:
    from autofuse.clients.kernelgen.defining.sources import describe as described

    return described(
        source,
        target=target,
        inputs=inputs,
        rounds=rounds,
        target_speedup=speedup,
        memory_bytes=memory << 30,
    )


def _folder(output: Path | None, definition: Definition) -> Path:
    return Path(OUTPUT) / definition.name if output is None else output


def _is_folder(source: str) -> bool:
    """Return True if ``source`` names a folder; raise AF1001 for one without a state."""
    from autofuse.clients.kernelgen.state import STATE

    folder = Path(source)
    if not folder.is_dir():
        return False
    if not (folder / STATE).exists():
        text = f"{folder} was not written by kernelgen: it has no {STATE}"
        hint = f"autofuse kernelgen describe SOURCE -o {folder}"
        raise AutofuseError.of("AF1001", text, where=Where(path=source), hint=hint)
    return True


#: Options that a definition already contains.
_DESCRIBED = frozenset(("input", "target", "output", "names", "rounds", "speedup", "memory"))


def _refuse_what_is_described(context: typer.Context) -> None:
    """Raise AF1005 for an option that the definition already contains, if there is a definition."""
    for p in context.command.params:
        # Depending on its version, Typer bundles click or depends on it.
        given = context.get_parameter_source(p.name or "")
        if p.name in _DESCRIBED and given is not None and given.name == "COMMANDLINE":
            text = f"{p.opts[-1]} belongs to a definition, but the folder already has one"
            hint = "give a source for describe instead of the folder, or leave out the option"
            raise AutofuseError.of("AF1005", text, hint=hint)


def _options(folder: Path, quiet: bool, **more: Any) -> Options:
    from autofuse.clients.kernelgen.stages import Options

    return Options(folder, watch=_watch(quiet), **more)


def _watch(quiet: bool) -> Callable[[str], None]:
    """Show progress on a terminal."""
    import sys

    from autofuse.report.text.console import console

    screen = console(sys.stderr)
    if quiet or not screen.is_terminal:
        return lambda _: None
    return lambda text: screen.print(f"... {text}", style="dim")


def _outcome(results: Sequence[Result], options: Options) -> Outcome:
    found = {
        "folder": str(options.folder),
        "stages": {r.stage: {"passed_over": r.passed_over, **r.facts} for r in results},
    }

    def show(screen: Console) -> None:
        for r in results:
            state = ": up to date" if r.passed_over else "" if r.ok else ": failed"
            screen.print(f"{r.stage}{state}")
            for line in r.lines:
                screen.print(f"  {line}")

    diagnostics = tuple(d for r in results for d in r.diagnostics)
    return Outcome(found, show, diagnostics, all(r.ok for r in results))


def _finish(verb: str, action: Callable[[], Outcome], as_json: bool) -> None:
    raise typer.Exit(execute(f"kernelgen {verb}", action, as_json=as_json))
