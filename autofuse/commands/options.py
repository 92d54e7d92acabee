"""Options and arguments shared by several verbs, and the examples in their help."""

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
#: Stages that ``dump`` shows, in compiler order.
STAGES = ("fusion", "hint", "impl", "kernel", "files")
#: Stages that only targets with templates have.
TEMPLATE_STAGES = ("impl", "kernel")


def examples(*lines: str) -> str:
    """Format the examples of a verb, one per line."""
    # \b keeps the help formatter from joining the lines.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def path(text: str) -> Path:
    """Parse a path; an empty one, as an unset shell variable leaves, is not the current folder."""
    if not str(text):
        raise typer.BadParameter("the path is empty; write . for the current folder")
    return Path(text)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="cpu|cuda[:N]",
        help="Device to run on: the CPU (the twin or Triton's interpreter) or a card.",
    ),
]
ChipDevice = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="cpu|cuda[:N]|npu[:N]",
        help="Device to run on: the CPU (the twin or Triton's interpreter), a card, or an Ascend chip.",
    ),
]
Graph = Annotated[
    Path, typer.Argument(parser=path, metavar="GRAPH", help="Graph file (JSON or ONNX).")
]
Target = Annotated[
    str,
    typer.Option(
        "--target",
        "-t",
        help="Chip or GPU (see: autofuse targets), or a target file, FILE.toml.",
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
        "--split", help="Split a graph that is too large for one kernel into several and a driver."
    ),
]
Partition = Annotated[
    bool | None,
    typer.Option(
        "--partition/--no-partition",
        help="Treat an ONNX model as several regions, or as one kernel.  [default: one kernel if possible]",
        show_default=False,
    ),
]
Invariant = Annotated[
    bool,
    typer.Option(
        "--invariant",
        help="Make the bits of a row depend on no sizes except those of the reduced axes.",
    ),
]
Tuning = Annotated[
    Path | None,
    typer.Option(
        "--tuning",
        parser=path,
        metavar="FILE",
        help="Prefer the tilings (chip) or blocks (card) of this tuning file.",
    ),
]
Against = Annotated[
    Path | None,
    typer.Option(
        "--against",
        parser=path,
        metavar="GRAPH_FILE",
        help="Compare an edited kernel with this graph.",
    ),
]
CheckMode = Annotated[
    Check | None,
    typer.Option(
        "--check",
        help="Checks of the twin; all adds races, uninitialised data, double stores.  "
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
        help="Instruction order of the twin: 0 for program order, else adversarial.",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on the workers of this Dask scheduler, such as tcp://host:8786.",
    ),
]
