"""Fits the figures of a target to a bundle and, optionally, files of results."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from autofuse import __version__
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.measure.bench.results import Measurement
from autofuse.measure.calibration.bundle import Bundle, bundle_bytes
from autofuse.measure.calibration.fitting import Estimate, Fit, fit
from autofuse.measure.calibration.observed import of_bundle, of_results, with_clock
from autofuse.measure.calibration.parameters import fitting_figures
from autofuse.measure.calibration.target_text import target_text
from autofuse.results import BuildResult
from autofuse.targets import Figure, TargetSpec, load_chip

__all__ = ["LEAST_KERNELS", "Calibration", "Kind", "calibrate"]

#: Least kernels with times for a fit.
LEAST_KERNELS = 8
#: Relative bias, and bias in standard errors, above which a kind of kernels has a cost that the model lacks.
_OFF, _ERRORS = 0.05, 4.0
#: Weight below which a kernel is an outlier.
_OUTLIER = 0.05


@dataclass(frozen=True, slots=True)
class Kind:
    """The kernels of a kind; errors are relative, as in ``|model / measured - 1|``.

    Attributes:
        name: name of the kind.
        kernels: number of kernels.
        before: the median error with the old figures.
        after: the median error with the fitted figures.
        held_out: the median error of each kernel with figures fitted without it.
        bias: the signed median of ``model / measured - 1`` with the fitted figures.
        lacking: the bias is not noise: the model lacks a cost of these kernels, or has one too many.
    """

    name: str
    kernels: int
    before: float
    after: float
    held_out: float
    bias: float
    lacking: bool


@dataclass(frozen=True, slots=True)
class Calibration:
    """Result of a calibration.

    Attributes:
        fit: figures and errors.
        target: the chip with the fitted figures.
        kinds: kinds of kernels, by name.
        outliers: kernels with little weight in the fit, with ``model / measured - 1``; the largest first.
        left_out: reason -> number of kernels that could not be used.
        notes: remarks for the reader.
        text: text of the target file.
        fake: the times come from a fake CANN and are not measurements.
    """

    fit: Fit
    target: TargetSpec
    kinds: tuple[Kind, ...]
    outliers: tuple[tuple[str, float], ...]
    left_out: Mapping[str, int]
    notes: tuple[str, ...]
    text: str
    fake: bool

    def median(self, errors: Sequence[float]) -> float:
        """Return the median of ``|model / measured - 1|`` over all kernels."""
        return statistics.median(map(_part, errors))


def calibrate(
    bundle: Bundle,
    target: TargetSpec,
    *,
    records: Sequence[Measurement] = (),
    builds: Mapping[str, BuildResult] | None = None,
    keep: Collection[str] = (),
    name: str = "",
    watch: Callable[[], object] = lambda: None,
) -> Calibration:
    """Fit the figures of the cost model to measurements.

    Args:
        bundle: a bundle of ``autofuse silicon``.
        target: the chip of the kit's run; its figures are the start of the fit.
        records: measurements from files of results.
        builds: the kernels of the records, by the digest of their text.
        keep: statuses whose figures stay unchanged, such as ``vendor``.
        name: name of the new target; empty: the base's, with ``_calibrated`` or ``_fake``.
        watch: called after each round of the fit.

    Raises:
        AutofuseError: AF5014, there are too few measurements; AF1403, the bundle's clock is impossible for this chip.
    """
    base = load_chip(target.base or target.name)
    clocked = with_clock(target, bundle.chip.clock_mhz)
    observed = of_bundle(bundle, clocked)
    same = [m for m in records if m.device.chip == bundle.chip.soc]
    more = of_results(same, target, builds or {}, fake=bundle.fake)
    left = Counter(observed.left_out) + Counter(more.left_out)
    if len(same) < len(records):
        left["from a different chip than the bundle"] += len(records) - len(same)
    observations = (*observed.observations, *more.observations)
    figures = fitting_figures(clocked, keep)
    _check_enough(len(observations), left, "")
    found = fit(observations, clocked, figures, watch=watch)
    if not found.fitted:
        _check_enough(0, left, "the kernels determine no figures")
    new = [_figure(e, bundle) for e in found.fitted]
    name = name or f"{base.name}_{'fake' if bundle.fake else 'calibrated'}"
    chip = replace(clocked.with_figures(new), name=name, base=base.name)
    was = {f.name: f for f in base.figures()}
    changed = [f for f in chip.figures() if f != was[f.name]]
    errors = sorted(map(_part, found.held_out))
    about: dict[str, str | int | float | bool] = {
        "chip": bundle.chip.soc,
        "cann": bundle.cann,
        "autofuse": __version__,
        "bundle_sha256": hashlib.sha256(bundle_bytes(bundle, packed=False)).hexdigest(),
        "kernels": len(observations),
        "figures_fitted": len(new),
        "figures_unchanged": len(figures) - len(new),
        "error_before_median": _digits(statistics.median(map(_part, found.before))),
        "error_median": _digits(statistics.median(map(_part, found.after))),
        "error_held_out_median": _digits(statistics.median(errors)),
        "error_held_out_p90": _digits(errors[min(len(errors) - 1, 9 * len(errors) // 10)]),
    }
    return Calibration(
        found,
        chip,
        _kinds(found),
        _outliers(found),
        dict(left),
        _notes(bundle, target, clocked),
        target_text(name, base.name, found.estimates, changed, about, fake=bundle.fake),
        bundle.fake,
    )


def _check_enough(count: int, left: Mapping[str, int], why: str) -> None:
    if count >= LEAST_KERNELS:
        return
    text = (
        why
        or f"{counted(count, 'kernel was', 'kernels were')} measured, and a fit needs {LEAST_KERNELS}"
    )
    if left:
        text += "; left out: " + ", ".join(f"{n} {reason}" for reason, n in sorted(left.items()))
    hint = "autofuse silicon --only calibration measures enough for a fit"
    raise AutofuseError.of("AF5014", text, hint=hint)


def _figure(e: Estimate, bundle: Bundle) -> Figure:
    """Return a figure with its status and source; six digits exceed its precision."""
    on = "a fake CANN, no chip" if bundle.fake else f"{bundle.chip.soc}, CANN {bundle.cann}"
    was = f"was {e.figure.value:g} ({e.figure.status})"
    source = f"autofuse calibrate: {counted(e.kernels, 'kernel')} on {on}; +- {100 * e.error:.1f} %; {was}"
    status = "modelled" if bundle.fake else "fitted"
    value = float(f"{e.value:.6g}")
    return Figure(e.figure.name, value, e.figure.unit, status, source)


def _kinds(found: Fit) -> tuple[Kind, ...]:
    rows: dict[str, list[int]] = {}
    for i, o in enumerate(found.observations):
        rows.setdefault(o.kind, []).append(i)
    return tuple(_kind(name, rows[name], found) for name in sorted(rows))


def _kind(name: str, at: Sequence[int], found: Fit) -> Kind:
    after = [found.after[i] for i in at]
    middle = statistics.median(after)
    noise = max(
        statistics.median(found.observations[i].noise for i in at),
        statistics.median(abs(a - middle) for a in after) / 0.6745,
    )
    lacking = abs(middle) > max(_OFF, _ERRORS * noise / math.sqrt(len(at)))

    def median(errors: Sequence[float]) -> float:
        return statistics.median(_part(errors[i]) for i in at)

    return Kind(
        name,
        len(at),
        median(found.before),
        median(found.after),
        median(found.held_out),
        math.expm1(middle),
        lacking,
    )


def _outliers(found: Fit) -> tuple[tuple[str, float], ...]:
    rows = [
        (o.name, math.expm1(error))
        for o, weight, error in zip(found.observations, found.weights, found.after, strict=True)
        if weight < _OUTLIER
    ]
    return tuple(sorted(rows, key=lambda r: (-abs(r[1]), r[0])))


def _notes(bundle: Bundle, target: TargetSpec, clocked: TargetSpec) -> tuple[str, ...]:
    out = []
    if bundle.chip.soc.lower() != target.soc.lower():
        out.append(f"measured on {bundle.chip.soc}; {target.name} is {target.soc}")
    if bundle.target not in (target.name, target.base):
        out.append(f"the kit was run for {bundle.target}, and {target.name} is fitted")
    if clocked.clock_mhz != target.clock_mhz:
        out.append(f"the chip reports {clocked.clock_mhz} MHz instead of {target.clock_mhz}")
    if not bundle.complete:
        out.append("the bundle covers only part of the kit, or comes from an interrupted run")
    return tuple(out)


def _part(error: float) -> float:
    """Convert a difference of logarithms to a relative difference."""
    return abs(math.expm1(error))


def _digits(value: float) -> float:
    return float(f"{value:.3g}")
