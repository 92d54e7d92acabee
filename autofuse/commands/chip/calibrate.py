"""``calibrate``: fits figures of the cost model to measurements of a chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autofuse.commands import completing
from autofuse.commands.options import Json, examples, path

if TYPE_CHECKING:
    from rich.console import Console

    from autofuse.commands.outcome import Outcome
    from autofuse.measure.calibration.calibrating import Calibration
    from autofuse.results import BuildResult
    from autofuse.targets import TargetSpec

__all__ = ["register"]


class Status(str, Enum):
    """Status of figures that may be kept as they are."""

    measured = "measured"
    vendor = "vendor"
    fitted = "fitted"
    modelled = "modelled"
    assumed = "assumed"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        epilog=examples(
            "autofuse calibrate bundle.json",
            "autofuse calibrate bundle.json -o mine.toml",
            "autofuse calibrate bundle.json.gz --keep vendor",
            "autofuse calibrate bundle.json results/ --graphs graphs/",
            "autofuse calibrate bundle.json --dry-run    fit, but write nothing",
            "autofuse build graph.json -t mine.toml      plan with the fitted figures",
        )
    )(calibrate)


def calibrate(
    bundle: Annotated[
        Path,
        typer.Argument(parser=path, metavar="BUNDLE", help="Bundle written by autofuse silicon."),
    ],
    results: Annotated[
        list[Path] | None,
        typer.Argument(parser=path, metavar="RESULTS", help="Results files, or folders of them."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=path,
            metavar="FILE.toml",
            help="Target file to write.  [default: TARGET_calibrated.toml; for a fake chip TARGET_fake.toml]",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            autocompletion=completing.targets,
            help="Chip whose figures the fit starts from.  [default: the bundle's]",
            show_default=False,
        ),
    ] = None,
    graphs: Annotated[
        list[Path] | None,
        typer.Option(
            "--graphs",
            parser=path,
            metavar="GRAPH_OR_DIR",
            help="Graphs of the results. Repeatable.",
        ),
    ] = None,
    keep: Annotated[
        list[Status] | None,
        typer.Option(
            "--keep",
            metavar="STATUS",
            help="Keep figures of this status, such as vendor. Repeatable.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the fit, but write nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Fit the figures of the cost model to measurements of a chip.

    The times of calibration kernels in a bundle, and of kernels of graphs, separate bandwidths, heads
    and rates of vector calls, start, barriers and bank conflicts. Outliers get little weight. A figure
    that the times do not determine is unchanged, with the reason. The result is a target file, accepted
    wherever a target is.
    """
    from autofuse.commands.outcome import execute

    def action() -> Outcome:
        return _calibrate(
            bundle,
            results or [],
            output=output,
            target=target,
            graphs=graphs or [],
            keep=[k.value for k in keep or ()],
            dry_run=dry_run,
            quiet=json,
        )

    raise typer.Exit(execute("calibrate", action, as_json=json))


def _calibrate(
    bundle: Path,
    results: Sequence[Path],
    *,
    output: Path | None,
    target: str | None,
    graphs: Sequence[Path],
    keep: Sequence[str],
    dry_run: bool,
    quiet: bool,
) -> Outcome:
    from autofuse.base.diagnostics import AutofuseError
    from autofuse.commands import writing
    from autofuse.commands.outcome import Outcome
    from autofuse.measure.bench.results import read_results
    from autofuse.measure.calibration.bundle import read_bundle
    from autofuse.measure.calibration.calibrating import calibrate as fitted
    from autofuse.report.text.chip.calibration import print_calibration
    from autofuse.report.text.console import progress
    from autofuse.targets import ascend_chip, find_known, find_target

    read = read_bundle(bundle)
    try:
        # The name in the bundle must not open a file.
        spec = find_known(read.target) if target is None else find_target(target)
    except AutofuseError as e:
        if target is not None:
            raise
        hint = "the bundle was made with a target file: name it with -t FILE.toml"
        raise AutofuseError(tuple(replace(d, hint=hint) for d in e.diagnostics)) from None
    chip = ascend_chip(spec)
    records = [m for p in results for m in read_results(p)]
    if records and not graphs:
        text = "the results need the graphs of their kernels"
        raise AutofuseError.of("AF5007", text, hint="--graphs GRAPH_OR_DIR")
    base = chip.base or chip.name
    file = output or Path(f"{base}_{'fake' if read.fake else 'calibrated'}.toml")
    if file.suffix != ".toml":
        text = f"{file}: the name of a target file ends in .toml"
        raise AutofuseError.of("AF1005", text, hint=f"-o {file.name}.toml")
    writing.keep_inputs(file, {"the bundle": bundle, **{f"results {p}": p for p in results}})
    builds = _builds(graphs, chip, quiet=quiet) if records else {}
    with progress("calibrate", _ROUNDS, show=not quiet) as tick:
        found = fitted(read, chip, records=records, builds=builds, keep=keep, watch=tick)
    if not dry_run:
        writing.write_all({file: writing.text(found.text)})
    row = _row(found, None if dry_run else file)

    def show(screen: Console) -> None:
        print_calibration(screen, row)

    return Outcome(row, show)


#: Approximate number of rounds of a fit, for progress.
_ROUNDS = 12


def _builds(graphs: Sequence[Path], chip: TargetSpec, *, quiet: bool) -> dict[str, BuildResult]:
    """Build the kernels of graphs, by the digest of their text; a graph that needs several kernels gives none."""
    from autofuse import api
    from autofuse.base.diagnostics import AutofuseError
    from autofuse.commands.graph_files import graph_files
    from autofuse.report.text.console import progress

    paths = list(graph_files(graphs))
    out: dict[str, BuildResult] = {}
    with progress("build", len(paths), show=not quiet) as tick:
        for p in paths:
            try:
                built = api.build(p, target=chip)
            except AutofuseError:
                continue
            finally:
                tick()
            out[str(built.metadata["sha256"])] = built
    return out


def _row(found: Calibration, file: Path | None) -> Mapping[str, Any]:
    """Return the result for ``--json``."""
    f = found.fit
    return {
        "file": None if file is None else str(file),
        "target": found.target.name,
        "base": found.target.base,
        "fake": found.fake,
        "kernels": len(f.observations),
        "left_out": dict(found.left_out),
        "notes": list(found.notes),
        "scale": f.scale,
        "rank": f.rank,
        "error_median": {
            "before": found.median(f.before),
            "after": found.median(f.after),
            "held_out": found.median(f.held_out),
        },
        "fitted": [
            {
                "name": e.figure.name,
                "unit": e.figure.unit,
                "was": e.figure.value,
                "status_was": e.figure.status,
                "value": e.value,
                "error": e.error,
                "change": e.change,
                "kernels": e.kernels,
            }
            for e in f.fitted
        ],
        "unchanged": [
            {
                "name": e.figure.name,
                "unit": e.figure.unit,
                "value": e.figure.value,
                "status": e.figure.status,
                "kernels": e.kernels,
                "why": str(e.why),
            }
            for e in f.estimates
            if e.why is not None
        ],
        "kinds": [
            {
                "name": k.name,
                "kernels": k.kernels,
                "before": k.before,
                "after": k.after,
                "held_out": k.held_out,
                "bias": k.bias,
                "lacking": k.lacking,
            }
            for k in found.kinds
        ],
        "outliers": [{"name": n, "error": e} for n, e in found.outliers],
    }
