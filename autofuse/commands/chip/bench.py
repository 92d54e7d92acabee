"""The verb ``bench``."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from autofuse.commands import completing
from autofuse.commands.options import (
    DEFAULT_TARGET,
    Json,
    Scheduler,
    Seed,
    Target,
    Tuning,
    examples,
    path,
)
from autofuse.commands.outcome import execute

__all__ = ["register"]


class L2(str, Enum):
    """State of L2 before a call."""

    warm = "warm"
    clear = "clear"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        epilog=examples(
            "autofuse bench first.json --device npu:0",
            "autofuse bench first.json --shape rows=64 --shape rows=4096 --l2 clear",
            "autofuse bench out --device npu:0             a folder, edited or not",
            "autofuse bench graphs/ --device npu:0,1 --out results/",
            "autofuse bench first.json -t nvidia-h100 --device cuda:0 --out h100.json",
            "autofuse bench graphs/ --scheduler tcp://host:8786",
        )
    )(bench)


def bench(
    graphs: Annotated[
        list[Path],
        typer.Argument(
            parser=path,
            metavar="GRAPH|DIR...",
            help="Graph files, folders of them, or folders that build wrote.",
        ),
    ],
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="npu:N[,N]|cuda[:N]",
            help="Devices to measure on.  [default: npu:0, or cuda:0 for -t nvidia-*]",
            show_default=False,
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            "-s",
            metavar="SYMBOL=N,...",
            help="Sizes to measure at. Repeatable.  [default: typical sizes]",
            autocompletion=completing.symbols,
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, max=10_000, help="Samples per kernel.")
    ] = 50,
    warm_up: Annotated[
        int,
        typer.Option("--warm-up", min=0, max=10_000, help="Calls before the first timed one."),
    ] = 10,
    l2: Annotated[
        L2,
        typer.Option("--l2", help="L2 before a call: warm from the previous call, or cleared."),
    ] = L2.warm,
    counters: Annotated[
        bool,
        typer.Option(
            "--counters/--no-counters",
            help="On a chip: count pipe activity with msprof, where installed.",
        ),
    ] = True,
    tuning: Tuning = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            min=1,
            max=86_400,
            metavar="S",
            help="Time limit in seconds per kernel and set of sizes, compiling and NumPy included.",
        ),
    ] = 600,
    scheduler: Scheduler = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            parser=path,
            metavar="FILE|DIR",
            help="Add the results to this file or folder.",
        ),
    ] = None,
    seed: Seed = 0,
    target: Target = DEFAULT_TARGET,
    json: Json = False,
) -> None:
    """Measure kernels on a chip or a card.

    Ascend C runs on an Ascend chip, Triton (-t nvidia-h100) on a card. With --device cuda, a card
    also runs Ascend C, but its times say nothing about a chip. Every output is compared with NumPy
    first: a wrong kernel is not timed. Then device events time the calls, and the median is printed
    next to the cost model's prediction. Each device measures one kernel at a time, in a separate
    process.
    """
    from autofuse.commands.chip.measuring import bench_graphs
    from autofuse.machines.timing import Plan

    plan = Plan(warm_up, repeats, l2.value, seed, counters)
    raise typer.Exit(
        execute(
            "bench",
            lambda: bench_graphs(
                graphs,
                device=device,
                shapes=shape or [],
                target=target,
                plan=plan,
                timeout_s=timeout,
                tuning=tuning,
                scheduler=scheduler,
                out=out,
                quiet=json,
            ),
            as_json=json,
        )
    )
