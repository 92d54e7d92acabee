"""Turns measurements into observations for the fit, from bundles and files of results.

Both are untrusted (``read_bundle`` of ``bundle.py`` beside this file and ``read_results`` of ``measure.bench.results``
check their fields): a kernel that is unknown here, or that the model has no time for, is skipped and counted.
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

#: Least times of a kernel for a median, and largest relative standard error of the median.
LEAST_TIMES, MOST_NOISE = 3, 0.5
#: Ratio of the standard errors of median and mean, for normal noise.
_MEDIAN = 1.2533
#: Median absolute deviation of normal noise with a standard deviation of 1.
_QUARTILE = 0.6745


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations, and the number of skipped kernels.

    Attributes:
        observations: observations in the order of the files.
        left_out: reason -> number of kernels.
    """

    observations: tuple[Observation, ...]
    left_out: Mapping[str, int]


def of_bundle(bundle: Bundle, target: TargetSpec) -> Observed:
    """Return observations of a bundle's calibration kernels.

    Args:
        bundle: the measurements.
        target: the chip of the kit's run, which determines the kernels' work.
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
            left["this version has no such kernel, or not with these sizes"] += 1
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
    """Return observations of results whose kernels were built for the chip and measured on one, or on a fake.

    Args:
        records: the measurements.
        target: the chip.
        builds: builds by the digest of the kernel's text (``sha256`` in its metadata).
        fake: True if the bundle comes from a fake CANN; results of the other kind are skipped.
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
            left["the model has no time for this tiling"] += 1
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
    """Return why a record is not usable for the chip; empty if it is."""
    if m.device.kind != "npu" or m.kernel.target not in (target.name, target.base):
        return "for another target"
    if m.device.fake != fake:
        return (
            "from a chip, but the bundle is from a fake"
            if fake
            else "from a fake, but the bundle is from a chip"
        )
    if m.kernel.edited:
        return "edited kernels: the model covers only generated ones"
    if m.kernel.kernel_sha256 not in builds:
        return "none of the graphs produces this kernel (--graphs DIR)"
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
    """Return the observation for the median of the times, or the reason for its absence."""
    if len(times) < LEAST_TIMES:
        return f"fewer than {LEAST_TIMES} times"
    median = statistics.median(times)
    noise = _spread(times) * _MEDIAN / math.sqrt(len(times))
    if noise > MOST_NOISE:
        return "times that vary too much"
    us = predict(target)
    if not (math.isfinite(us) and us > 0):
        return "the model has no time for these sizes"
    return Observation(name, kernel, kind, median, noise, predict, _depends(kinds, target))


def _spread(times: Sequence[float]) -> float:
    """Return the relative standard deviation of times, from their median absolute deviation, which ignores outliers."""
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
    """Return the chip at the clock that its runtime reports, which converts cycles to times.

    Raises:
        AutofuseError: AF1403, the clock is impossible for the chip.
    """
    if clock_mhz is None or clock_mhz == target.clock_mhz:
        return target
    if not target.clock_mhz / 2 <= clock_mhz <= target.clock_mhz * 2:
        text = f"the bundle says {clock_mhz} MHz, but {target.name} has {target.clock_mhz} MHz"
        hint = "another target: -t NAME"
        raise AutofuseError.of("AF1403", text, hint=hint)
    old = next(f for f in target.figures() if f.name == "clock_mhz")
    new = replace(old, value=clock_mhz, status="measured", source="the runtime of the chip")
    return target.with_figures([new])
