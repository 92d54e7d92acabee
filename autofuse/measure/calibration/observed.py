"""From what was measured to what is fitted: bundles and files of results as observations.

Both come from anybody (``read_bundle`` of ``bundle.py`` beside this file, ``read_results`` of ``measure.bench.results``
check their fields): a kernel that is not known here, or that the model has no time for, is left out, and counted.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from autofuse.base.diagnostics import AutofuseError
from autofuse.measure.bench.results import Measurement
from autofuse.measure.calibration.bundle import Bundle, CalibrationRow
from autofuse.measure.calibration.cases import case_work
from autofuse.measure.calibration.fitting import Observation
from autofuse.measure.calibration.graphs import graph_model
from autofuse.measure.calibration.written import Work, evaluate
from autofuse.results import BuildResult
from autofuse.targets import TargetSpec

__all__ = ["LEAST_TIMES", "MOST_NOISE", "Observed", "of_bundle", "of_results", "with_clock"]

#: Times of a kernel that make a median, and the largest part of it that its standard error may be.
LEAST_TIMES, MOST_NOISE = 3, 0.5
#: Of the standard error of a median over that of a mean, of normal noise.
_MEDIAN = 1.2533
#: How far half of all times are from the median at most, of normal noise with a standard deviation of 1.
_QUARTILE = 0.6745


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations, and what was left out.

    Attributes:
        observations: in the order of the files.
        left_out: reason -> how many kernels.
    """

    observations: tuple[Observation, ...]
    left_out: Mapping[str, int]


def of_bundle(bundle: Bundle, target: TargetSpec) -> Observed:
    """The calibration kernels of a bundle.

    Args:
        bundle: what was measured.
        target: the chip that the kit was run for, which decides what the kernels did.
    """
    left: Counter[str] = Counter()
    found = []
    for row in bundle.calibration:
        if row.state != "measured":
            left[f"state {row.state}"] += 1
            continue
        try:
            work = case_work(row.program, row.parameters, target)
            kinds = frozenset(c.kind for b in work.bodies for c in b.calls)
        except AutofuseError:
            left["this version has no such kernel, or not of these sizes"] += 1
            continue
        made = _observation(
            row.case,
            row.case,
            _kind_of(row),
            row.times_us,
            kinds,
            partial(_total, work),
            target,
        )
        if isinstance(made, str):
            left[made] += 1
        else:
            found.append(made)
    return Observed(tuple(found), dict(left))


def of_results(
    records: Sequence[Measurement],
    target: TargetSpec,
    builds: Mapping[str, BuildResult],
    *,
    fake: bool,
) -> Observed:
    """The kernels of files of results that were built for the chip, and measured on one (or on a fake one).

    Args:
        records: what was measured.
        target: the chip.
        builds: by the digest of the text of the kernel (``sha256`` of its metadata).
        fake: whether the bundle is of a fake CANN; results of the other sort are left out.
    """
    left: Counter[str] = Counter()
    found = []
    for number, m in enumerate(records):
        reason = _unfit(m, target, builds, fake=fake)
        if reason:
            left[reason] += 1
            continue
        built = builds[m.kernel.kernel_sha256 or ""]
        called = {s.label: s.name for s in built.graph.symbols}
        sizes = {called.get(k, k): n for k, n in m.sizes.items()}
        low_high = {s.name: (s.min, s.max) for s in built.graph.symbols}
        if sizes.keys() != low_high.keys() or any(
            not low <= sizes[n] <= high for n, (low, high) in low_high.items()
        ):
            left["sizes that the graph does not have"] += 1
            continue
        model = graph_model(built, sizes, m.key)
        if model is None:
            left["the model has no time of such a tiling"] += 1
            continue
        shape = "_".join(str(n) for n in sizes.values())
        made = _observation(
            f"{built.graph.label}.{shape}.{number}",
            f"graph {built.graph.label}",
            "graphs",
            m.times_us,
            *model,
            target,
        )
        if isinstance(made, str):
            left[made] += 1
        else:
            found.append(made)
    return Observed(tuple(found), dict(left))


def _total(work: Work, chip: TargetSpec) -> float:
    return evaluate(work, chip).total


def _unfit(
    m: Measurement, target: TargetSpec, builds: Mapping[str, BuildResult], *, fake: bool
) -> str:
    """Why a record says nothing about the chip; empty where it does."""
    if m.device.kind != "npu" or m.kernel.target not in (target.name, target.base):
        return "of another target"
    if m.device.fake != fake:
        return "of a chip beside a bundle of a fake" if fake else "of a fake beside a chip"
    if m.kernel.edited:
        return "edited kernels: the model knows the generated ones"
    if m.kernel.kernel_sha256 not in builds:
        return "none of the graphs gives that kernel (--graphs DIR)"
    return ""


def _observation(
    name: str,
    kernel: str,
    kind: str,
    times: Sequence[float],
    kinds: frozenset[str],
    predict: Callable[[TargetSpec], float],
    target: TargetSpec,
) -> Observation | str:
    """The median of some times; why there is none."""
    if len(times) < LEAST_TIMES:
        return f"fewer than {LEAST_TIMES} times"
    median = statistics.median(times)
    noise = _spread(times) * _MEDIAN / math.sqrt(len(times))
    if noise > MOST_NOISE:
        return "times that scatter too much"
    us = predict(target)
    if not (math.isfinite(us) and us > 0):
        return "the model has no time of such sizes"
    return Observation(name, kernel, kind, median, noise, predict, _depends(kinds, target))


def _spread(times: Sequence[float]) -> float:
    """The standard deviation of times as a part of their median, by how far half of them are: without outliers."""
    median = statistics.median(times)
    away = statistics.median(abs(t - median) for t in times)
    return away / _QUARTILE / median


def _depends(kinds: frozenset[str], target: TargetSpec) -> frozenset[str]:
    """Return all figures but those of vector calls of other kinds."""
    names = (f.name for f in target.figures())
    return frozenset(n for n in names if n[:7] != "vector." or n.split(".")[1] in kinds)


def _kind_of(row: CalibrationRow) -> str:
    """Return the group of a residual: the kernel, for all dtypes; for loads and stores, two words of the case."""
    words = row.case.split(".")
    if row.program.startswith(("load", "store")):
        return ".".join(words[:2])
    return row.program.removesuffix("_16").removesuffix("_32")


def with_clock(target: TargetSpec, clock_mhz: int | None) -> TargetSpec:
    """The chip at the clock that its runtime reports, which turns cycles into times.

    Raises:
        AutofuseError: AF1403, no such chip has such a clock.
    """
    if clock_mhz is None or clock_mhz == target.clock_mhz:
        return target
    if not target.clock_mhz / 2 <= clock_mhz <= target.clock_mhz * 2:
        text = f"the bundle says {clock_mhz} MHz, and {target.name} has {target.clock_mhz} MHz"
        hint = "another target: -t NAME"
        raise AutofuseError.of("AF1403", text, hint=hint)
    old = next(f for f in target.figures() if f.name == "clock_mhz")
    new = replace(old, value=clock_mhz, status="measured", source="the runtime of the chip")
    return target.with_figures([new])
