"""Command line of the verb ``run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autofuse.commands import completing
from autofuse.commands.options import (
    DEFAULT_TARGET,
    Against,
    CheckMode,
    CheckSeed,
    ChipDevice,
    Graph,
    Input,
    Invariant,
    Json,
    Partition,
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
            "autofuse run first.json",
            "autofuse run first.json --shape rows=1000 --seed 7",
            "autofuse run first.json --input x=x.npy --save out",
            "autofuse run first.json --key 1",
            "autofuse run first.json --tuning first.tuning.json",
            "autofuse run first.json -t nvidia-h100      in Triton's interpreter",
            "autofuse run first.json -t cpu              C++ loops on this machine",
            "autofuse run first.json --trace trace.json   modelled times, for Perfetto",
            "autofuse run first.json --html times.html    modelled times, as a page",
            "autofuse run out                             a folder, edited or not",
            "autofuse run out --against first.json        compare an edited kernel",
            "autofuse run model.onnx --shape batch=3      a network, or one kernel",
        )
    )(run)


def run(
    graph: Graph,
    shape: Shape = None,
    seed: Seed = 0,
    key: Annotated[
        int | None,
        typer.Option(
            "--key",
            help="Use this tiling key instead of the host's choice.",
            autocompletion=completing.keys,
        ),
    ] = None,
    input: Input = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save", parser=path, metavar="DIR", help="Write every output to DIR as .npy."
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            parser=path,
            metavar="FILE",
            help="Write modelled times as a Chrome trace, or as .html.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", parser=path, metavar="FILE", help="Write modelled times as one HTML page."
        ),
    ] = None,
    against: Against = None,
    split: Split = False,
    invariant: Invariant = False,
    tuning: Tuning = None,
    partition: Partition = None,
    rtol: Annotated[
        float | None,
        typer.Option("--rtol", min=0, help="For a model: relative tolerance.  [default: 0.001]"),
    ] = None,
    atol: Annotated[
        float | None,
        typer.Option(
            "--atol",
            min=0,
            help="For a model: tolerance relative to the largest element.  [default: 0.00001]",
        ),
    ] = None,
    check: CheckMode = None,
    check_seed: CheckSeed = 0,
    device: ChipDevice = "cpu",
    target: Target = DEFAULT_TARGET,
    json: Json = False,
) -> None:
    """Run the kernel once and compare it with NumPy.

    Ascend C kernels run on the CPU twin, or with --device npu:0 on a chip. Triton kernels
    (-t nvidia-h100) run in Triton's interpreter. With --device cuda, both run on a card. GRAPH may be
    a folder that build wrote. For an ONNX model that needs more than one kernel, the regions that can
    be fused run as kernels and the rest in onnx.reference, and all results are compared with
    onnx.reference. With --trace or --html, a model of the chip times the run: clocks of every pipe,
    stalls, and the critical path. No time is measured.
    """

    def action() -> Outcome:
        from autofuse.commands.kernels.running import run

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

    raise typer.Exit(execute("run", action, as_json=json))
