"""The verb ``silicon``."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from autofuse.base.diagnostics import AutofuseError
from autofuse.commands import completing
from autofuse.commands.options import Json, Seed, examples, path
from autofuse.commands.outcome import Outcome, execute

__all__ = ["register"]


class Part(str, Enum):
    """A part of the kit."""

    conformance = "conformance"
    calibration = "calibration"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        epilog=examples(
            "autofuse silicon --list",
            "autofuse silicon --device npu:0",
            "autofuse silicon --device npu:0 --resume   continue after Ctrl-C or a crash",
            "autofuse silicon --only calibration --out chip.json.gz --yes",
            "autofuse silicon --device npu:0 --filter op.Exp --filter corner",
        )
    )(silicon)


def silicon(
    device: Annotated[str, typer.Option("--device", metavar="npu:N", help="The chip.")] = "npu:0",
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            autocompletion=completing.targets,
            help="Target to generate kernels for.  [default: the chip's target]",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            parser=path,
            metavar="BUNDLE",
            help="File to write: .json or .json.gz.  [default: silicon-TARGET.json.gz]",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    only: Annotated[
        Part | None,
        typer.Option(
            "--only", help="Run one part of the kit.  [default: both]", show_default=False
        ),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="TEXT",
            help="Run only items with this in their name. Repeatable.",
        ),
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="Print what would run; needs no chip.")
    ] = False,
    limit: Annotated[
        float,
        typer.Option(
            "--time-limit",
            min=0.5,
            max=3600,
            metavar="S",
            help="Time limit in seconds of one launch.",
        ),
    ] = 20.0,
    repeats: Annotated[
        int,
        typer.Option("--repeats", min=3, max=256, help="Timed launches of a calibration kernel."),
    ] = 30,
    seed: Seed = 0,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", "-j", min=0, help="Kernels to compile at a time; 0: all cores but one."
        ),
    ] = 0,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Write the bundle without asking.")
    ] = False,
    json: Json = False,
) -> None:
    """Run the kit on a chip, and write a bundle.

    Conformance: every op and dtype that the target claims, every template family, and assumptions about
    the chip, compared with NumPy. Calibration: kernels whose times determine the figures of the cost
    model. Every kernel has its own process and time limit; kernels that may hang run last. The contents
    of the bundle are shown before it is written: no host, user, path or serial number.
    """

    def action() -> Outcome:
        from autofuse.commands.chip import kit as verb

        chosen = words or []
        part = None if only is None else only.value
        if list_only:
            return verb.listed(target, part, chosen)
        if not yes and (json or not sys.stdin.isatty()):
            raise AutofuseError.of(
                "AF5007",
                "writing the bundle needs a confirmation, and nobody can be asked here",
                hint="--yes writes it without asking",
            )
        return verb.silicon(
            device,
            target=target,
            out=out,
            only=part,
            words=chosen,
            limit=limit,
            repeats=repeats,
            seed=seed,
            jobs=jobs,
            resume=resume,
            agree=lambda: yes or typer.confirm("Write the bundle?", err=True),
            quiet=json,
        )

    code = execute("silicon", action, as_json=json)
    raise typer.Exit(code)
