"""The words of the verb ``run``."""

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
            "autofuse run first.json --trace trace.json   times of a model, Perfetto",
            "autofuse run first.json --html times.html    the same as a page",
            "autofuse run out                             a folder, edited or not",
            "autofuse run out --against first.json        what it computes after an edit",
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
            help="Force this tiling key instead of the host's choice.",
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
    (-t nvidia-h100) run in its interpreter. With --device cuda both run on a card. GRAPH may be a
    folder that build wrote. Of an ONNX model that is
    more than one kernel, the regions that can be fused run as kernels and the rest by
    onnx.reference, which all of it is compared with. With --trace or --html the run is timed by a
    model of the chip: clocks of every pipe, what each waits for, and the critical path. No time is
    measured.
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
