"""The verb ``tune``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autofuse.commands import completing
from autofuse.commands.options import (
    DEFAULT_TARGET,
    Graph,
    Json,
    Scheduler,
    Seed,
    Target,
    examples,
    path,
)
from autofuse.commands.outcome import execute

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        epilog=examples(
            "autofuse tune first.json --shape rows=4096 --device npu:0 -o t.json",
            "autofuse tune first.json --shape rows=1024..4096 --device npu:0,1",
            "autofuse tune first.json --shape rows=4096      predicted times",
            "autofuse tune first.json --bundle bundle.json    with fitted figures",
            "autofuse tune first.json -t nvidia-h100 --device cuda:0 --budget 120",
            "autofuse build first.json --tuning t.json",
        )
    )(tune)


def tune(
    graph: Graph,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            "-s",
            metavar="SYMBOL=N,...",
            help="Sizes to tune for; N..M is a range. Repeatable.  [default: typical sizes]",
            autocompletion=completing.symbols,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=path,
            metavar="FILE",
            help="Tuning file to write.  [default: NAME.tuning.json]",
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="cpu|npu:N[,N]|cuda:N[,N]",
            help="Device to measure on; cpu: predict times with the model.",
        ),
    ] = "cpu",
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget", min=1, metavar="S", help="Time limit in seconds.  [default: none]"
        ),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", min=1, max=200, help="Candidates per template or kernel.")
    ] = 12,
    rounds: Annotated[
        int, typer.Option("--rounds", min=3, max=1000, help="Samples per candidate.")
    ] = 15,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store",
            parser=path,
            metavar="FILE",
            help="Store measurements in this file, and continue from those in it.",
        ),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle",
            parser=path,
            metavar="FILE",
            help="Predict times with figures fitted to this bundle from silicon.",
        ),
    ] = None,
    scheduler: Scheduler = None,
    seed: Seed = 0,
    target: Target = DEFAULT_TARGET,
    json: Json = False,
) -> None:
    """Find faster tilings or blocks, and write a tuning file.

    Candidates are compared with NumPy, then timed in turns with the compiler's choice. The fastest is
    kept if its gain exceeds the noise. Candidates for a chip are templates, tiles and cores, at each
    size; for a card, blocks of Triton kernels, for all sizes together. Without a device, times are
    predicted; for a chip, by the timed mode of the twin. build, run, verify, bench and explain take
    the file with --tuning.
    """
    from autofuse.commands.chip.trials import tune as run

    raise typer.Exit(
        execute(
            "tune",
            lambda: run(
                graph,
                output,
                shapes=shape or [],
                target=target,
                device=device,
                budget=budget,
                top=top,
                rounds=rounds,
                seed=seed,
                store=store,
                scheduler=scheduler,
                bundle=bundle,
                quiet=json,
            ),
            as_json=json,
        )
    )
