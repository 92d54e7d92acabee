"""Command line of the verb ``verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autofuse.commands.options import (
    DEFAULT_TARGET,
    Against,
    CheckMode,
    CheckSeed,
    Device,
    Input,
    Invariant,
    Json,
    Scheduler,
    Seed,
    Shape,
    Split,
    Target,
    Tuning,
    examples,
    path,
)
from autofuse.commands.outcome import Outcome, execute

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        epilog=examples(
            "autofuse verify first.json",
            "autofuse verify first.json --shapes 10 --seed 7",
            "autofuse verify first.json --shape rows=1000 --input x=x.npy",
            "autofuse verify graphs/ --jobs 4",
            "autofuse verify graphs/ --json > report.json",
            "autofuse verify large.json --split",
            "autofuse verify out                        a folder that build wrote",
            "autofuse verify first.json -t nvidia-h100  in Triton's interpreter",
            "autofuse verify first.json -t nvidia-h100 --tuning blocks.json",
            "autofuse verify first.json -t cpu          C++ loops on this machine",
            "autofuse verify first.json -t nvidia-h100 --device cuda  on a card",
            "autofuse verify first.json --device cuda   Ascend C on a card, by nvcc",
            "autofuse verify graphs/ --scheduler tcp://host:8786  on workers of Dask",
        )
    )(verify)


def verify(
    graphs: Annotated[
        list[Path],
        typer.Argument(
            parser=path,
            metavar="GRAPH_OR_DIR...",
            help="Graph files, folders of them, or folders that build wrote.",
        ),
    ],
    shapes: Annotated[
        int, typer.Option("--shapes", min=1, help="Number of shapes to try, for symbolic graphs.")
    ] = 4,
    shape: Shape = None,
    input: Input = None,
    seed: Seed = 0,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Number of parallel jobs; 0: one per core.")
    ] = 0,
    symbolic: Annotated[
        bool,
        typer.Option("--symbolic", help="Turn fixed sizes into symbols first, to try other sizes."),
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

    Ascend C kernels run on the CPU twin; Triton kernels (-t nvidia-h100) run in Triton's interpreter.
    With --device cuda, both run on a card, Ascend C through nvcc. Every element of every output is
    compared, at several shapes of a symbolic graph. A graph with a tensor of more than 2^20 elements
    (2^16 for the interpreter) is built, then shrunk before it runs. --shape and --input set sizes and
    data of one graph, as for run; the rest is chosen. Exit code 1 if a graph fails or none passes;
    graphs with an op that autofuse does not support are counted separately.
    """

    def action() -> Outcome:
        from autofuse.commands.kernels.verifying import verify

        return verify(
            graphs,
            shapes=shapes,
            sizes=shape or [],
            inputs=input or [],
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

    raise typer.Exit(execute("verify", action, as_json=json))
