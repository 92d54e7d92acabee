"""``bench``: compares kernels on a chip or a card with NumPy, and times them beside the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofuse import api
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.codegen.backends.interface import plans
from autofuse.commands import words
from autofuse.commands.graph_files import graph_files, is_built
from autofuse.commands.outcome import Outcome
from autofuse.machines.timing import Plan
from autofuse.machines.witness.kernel import check_chip
from autofuse.machines.words import CPU
from autofuse.measure.bench.bench import Case, Row, bench
from autofuse.measure.bench.devices import BenchDevice, parse_devices
from autofuse.measure.bench.results import read_results
from autofuse.measure.bench.store import append_results
from autofuse.measure.bench.subjects import points, subject_of
from autofuse.report.text.console import progress
from autofuse.targets import ascend_chip, find_target

if TYPE_CHECKING:
    from rich.console import Console

    from autofuse.codegen.backends.ascendc.tuning import Tilings
    from autofuse.codegen.backends.triton.tuning import Tuning

__all__ = ["bench_graphs"]

STATES = ("measured", "wrong", "failed")


def bench_graphs(
    graphs: Sequence[Path],
    *,
    device: str | None,
    shapes: Sequence[str],
    target: str,
    plan: Plan,
    timeout_s: float,
    tuning: Path | None = None,
    scheduler: str | None = None,
    out: Path | None = None,
    quiet: bool = False,
) -> Outcome:
    """Build, compare and time; one row per graph and set of sizes.

    ``shapes`` are texts ``SYMBOL=N,SYMBOL=N``. ``out`` is a store for the measurements.

    Raises:
        AutofuseError: any error before the first kernel runs.
    """
    if out is not None and out.exists():
        # Check the store first, not after minutes of measuring.
        read_results(out)
    paths = list(graph_files(graphs, built=True))
    if tuning is not None and len(paths) != 1:
        text = "a tuning file is for one graph"
        raise AutofuseError.of("AF5007", text, hint="give --tuning with a single graph file")
    tuned = None if tuning is None else api.read_tuning(tuning)
    given = [words.sizes([text], "--shape") for text in shapes]
    devices = _devices(device, paths, target)
    _fits(devices, paths, target)
    cases, rows_of_unbuilt = _cases(paths, target, tuned, given)
    with progress("bench", len(cases), show=not quiet and len(cases) > 1) as tick:
        rows = bench(
            cases,
            devices,
            plan,
            timeout_s=timeout_s,
            tuning=tuned,
            scheduler=scheduler,
            tick=tick,
        )
    records = [r.record for r in rows if r.record is not None]
    written = append_results(out, records) if out is not None and records else None
    found = _found(rows, rows_of_unbuilt, devices, plan, written)

    def show(screen: Console) -> None:
        from autofuse.report.text.chip.bench import print_bench

        print_bench(screen, found)

    findings = [*(d for r in rows for d in r.diagnostics), *_mixed(rows)]
    findings += [d for _, e in rows_of_unbuilt for d in e.diagnostics]
    counts = found["counts"]
    ok = counts["measured"] > 0 and counts["measured"] == sum(counts.values())
    return Outcome(found, show, tuple(findings), ok)


def _devices(device: str | None, paths: Sequence[Path], target: str) -> tuple[BenchDevice, ...]:
    """Return the requested devices, by default the target's kind."""
    if device is not None:
        return parse_devices(device)
    home = "npu" if all(map(is_built, paths)) else find_target(target).home
    return parse_devices(f"{home}:0")


def _fits(devices: Sequence[BenchDevice], paths: Sequence[Path], target: str) -> None:
    """Raise AF5007 if the device cannot run kernels for the target."""
    if all(map(is_built, paths)):
        return
    spec = find_target(target)
    if spec.home == CPU:
        text = f"bench measures chips and cards, but {target} is a CPU"
        raise AutofuseError.of("AF5007", text, hint="autofuse run -t cpu runs the kernel here")
    planned = plans(spec)
    kind = devices[0].kind
    if kind not in ({spec.home} - {"npu"} if planned else {"npu", "cuda"}):
        text = f"kernels for {target} do not run on {devices[0]}"
        hint = "-t nvidia-h100 writes kernels for a card, --device cuda:0 is one"
        raise AutofuseError.of("AF5007", text, hint=hint)
    if kind == "cuda" and not planned:
        check_chip(ascend_chip(spec))


def _cases(
    paths: Sequence[Path],
    target: str,
    tuning: Tuning | Tilings | None,
    shapes: Sequence[dict[str, int]],
) -> tuple[list[Case], list[tuple[Path, AutofuseError]]]:
    """Return the kernels with their sizes; among several graphs, those that cannot be built are reported too."""
    cases: list[Case] = []
    failed: list[tuple[Path, AutofuseError]] = []
    for path in paths:
        found = _cases_of(path, target, tuning, shapes)
        if not isinstance(found, AutofuseError):
            cases += found
        elif len(paths) == 1:
            raise found
        else:
            failed.append((path, found))
    return cases, failed


def _cases_of(
    path: Path, target: str, tuning: Tuning | Tilings | None, shapes: Sequence[dict[str, int]]
) -> list[Case] | AutofuseError:
    try:
        subject = subject_of(path, target, tuning)
        return [Case(subject, sizes) for sizes in points(subject.graph, shapes)]
    except AutofuseError as e:
        return e


def _found(
    rows: Sequence[Row],
    failed: Sequence[tuple[Path, AutofuseError]],
    devices: Sequence[BenchDevice],
    plan: Plan,
    written: Path | None,
) -> dict[str, Any]:
    counts = Counter(r.state for r in rows)
    counts["failed"] += len(failed)
    records = [r.record for r in rows if r.record is not None]
    return {
        "rows": [r.to_json() for r in rows],
        "not_built": [
            {"graph": str(p), "diagnostics": [d.to_json() for d in e.diagnostics]}
            for p, e in failed
        ],
        "counts": {s: counts[s] for s in STATES},
        "devices": [str(d) for d in devices],
        "chips": [d.model_dump() for d in _distinct(r.device for r in records)],
        "fake": any(r.device.fake for r in records),
        "stands_in": any(r.stands_in for r in rows),
        "l2": plan.l2,
        "warm_up": plan.warm_up,
        "repeats": plan.repeats,
        "seed": plan.seed,
        "out": None if written is None else str(written),
    }


def _distinct(items: Any) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


def _mixed(rows: Sequence[Row]) -> list[Diagnostic]:
    """Return a warning if times of different chips are mixed."""
    names = _distinct(r.record.device.chip for r in rows if r.record is not None)
    if len(names) < 2:
        return []
    text = f"the times come from different chips: {', '.join(names)}"
    hint = "each row names its chip; to compare times, name devices of one kind"
    return [Diagnostic("AF5007", text, hint=hint, severity="warning")]
