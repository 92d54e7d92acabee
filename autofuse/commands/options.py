"""Options and arguments that several verbs have, and the examples in their help."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from autofuse.commands import completing

__all__ = [
    "DEFAULT_TARGET",
    "STAGES",
    "TEMPLATE_STAGES",
    "Against",
    "Check",
    "CheckMode",
    "CheckSeed",
    "ChipDevice",
    "Device",
    "Graph",
    "Input",
    "Invariant",
    "Json",
    "KernelJson",
    "Partition",
    "Scheduler",
    "Seed",
    "Shape",
    "Split",
    "Target",
    "Tuning",
    "examples",
    "path",
]

DEFAULT_TARGET = "ascend910b1"
#: What ``dump`` shows, in the order in which the compiler makes it.
STAGES = ("fusion", "hint", "impl", "kernel", "files")
#: Those that only targets with templates have.
TEMPLATE_STAGES = ("impl", "kernel")


def examples(*lines: str) -> str:
    """The examples of a verb, a line each."""
    # \b keeps the help formatter from joining the lines.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def path(text: str) -> Path:
    """A path of the command line; an empty one, as a script's unset variable leaves, is not the current folder."""
    if not str(text):
        raise typer.BadParameter("the path is empty; write . for the current folder")
    return Path(text)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="cpu|cuda[:N]",
        help="Where kernels run: on a CPU (the twin, Triton's interpreter), or on a card.",
    ),
]
ChipDevice = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="cpu|cuda[:N]|npu[:N]",
        help="Where kernels run: on a CPU (the twin, Triton's interpreter), on a card, or on an Ascend chip.",
    ),
]
Graph = Annotated[
    Path, typer.Argument(parser=path, metavar="GRAPH", help="The graph file (JSON or ONNX).")
]
Target = Annotated[
    str,
    typer.Option(
        "--target",
        "-t",
        help="The chip or GPU (see: autofuse targets), or a target file, FILE.toml.",
        autocompletion=completing.targets,
    ),
]
Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        "-s",
        metavar="SYMBOL=N,...",
        help="Sizes of symbols. Repeatable.",
        autocompletion=completing.symbols,
    ),
]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="NAME=FILE",
        help="Data from a .npy file. Repeatable.",
        autocompletion=completing.inputs,
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random data.")]


class Check(str, Enum):
    """Checks of the twin."""

    all = "all"
    fast = "fast"


class KernelJson(str, Enum):
    """Keys of the JSON beside a binary."""

    upstream = "upstream"
    document = "document"


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
Invariant = Annotated[
    bool,
    typer.Option(
        "--invariant",
        help="Let no size but those of what is reduced change the bits of a row.",
    ),
]
Tuning = Annotated[
    Path | None,
    typer.Option(
        "--tuning",
        parser=path,
        metavar="FILE",
        help="A tuning file: tilings for a chip, or blocks for a card, that come first.",
    ),
]
Against = Annotated[
    Path | None,
    typer.Option(
        "--against",
        parser=path,
        metavar="GRAPH_FILE",
        help="Compare with what this graph computes, after an edit of the kernel.",
    ),
]
CheckMode = Annotated[
    Check | None,
    typer.Option(
        "--check",
        help="Of the twin; all: also races, uninitialised data, double stores.  "
        "[default: all for verify, else fast]",
        show_default=False,
    ),
]
CheckSeed = Annotated[
    int,
    typer.Option(
        "--check-seed",
        min=0,
        max=(1 << 64) - 1,
        help="Of the twin: order of instructions; 0: program order, else adversarial.",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on the workers of this Dask scheduler, as tcp://host:8786.",
    ),
]
