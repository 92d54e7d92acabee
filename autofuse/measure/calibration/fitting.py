"""Fits figures of the cost model to measured times, by robust least squares.

The unknowns are the logarithms of the figures; a kernel's residual is ``ln(model / measured)``, in units of its noise.
Measurement errors and gaps in the model cause outliers, so the weights are Huber's and then Tukey's (iteratively
reweighted least squares). Steps are Gauss-Newton, with finite differences. A weak prior holds figures near their values
where nothing else does. A figure that the kernels do not determine is not reported as fitted: it stays unchanged, and
:class:`Estimate` has the reason.

Equal observations give equal fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.base.wording import counted, form
from autofuse.targets import Figure, TargetSpec

__all__ = ["LIMIT", "Estimate", "Fit", "Observation", "Undetermined", "fit"]

Floats: TypeAlias = npt.NDArray[np.float64]

#: Largest relative standard error of a figure that counts as fitted.
LIMIT = 0.03
#: Standard deviation of the prior on the logarithm of a figure: a factor of about 3.
_PRIOR = 1.1
#: Least relative noise of a time.
_NOISE = 0.005
#: Step of the finite differences, longest step of a round, and tolerance that ends the rounds.
_STEP, _LONGEST, _CLOSE = 0.004, 0.8, 2e-4
#: Largest change of a figure's logarithm: no chip of the name is 100 times another.
_FARTHEST = 4.6
#: Rounds with Huber's and with Tukey's weights, and the change of a figure that triggers new derivatives.
_HUBER_ROUNDS, _TUKEY_ROUNDS, _MOVED = 12, 8, 0.05
#: Residuals, in standard deviations, at which weights begin to fall, and at which they reach 0.
_HUBER, _TUKEY = 1.345, 4.685
#: Ratio of residual-based to noise-based errors that is not accidental.
_CONTRADICTS = 2.5
#: Least relative change of a kernel's time per relative change of a figure that it depends on.
_DEPENDS = 0.01
#: A figure rests on the kernels that it affects by this part of its largest effect; this share of them must agree.
_RESTS, _AGREE = 0.3, 0.6
#: Number of folds for holding kernels out.
_PARTS = 5


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured kernel.

    Attributes:
        name: name of the kernel with its sizes.
        kernel: group that is held out together.
        kind: group for reporting residuals.
        us: microseconds, a median.
        noise: relative standard error of ``us``.
        predict: the model's microseconds for a chip; pure.
        depends: names of the figures that it can depend on; None: any.
    """

    name: str
    kernel: str
    kind: str
    us: float
    noise: float
    predict: Callable[[TargetSpec], float]
    depends: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Undetermined:
    """Why the kernels do not determine a figure.

    Attributes:
        kernels: number of kernels that depend on it.
        error: its relative standard error; infinity if nothing depends on it.
        beside: a figure together with which the kernels determine it; empty if there is none.
        contradict: True if the kernels would determine it if they agreed.
    """

    kernels: int
    error: float
    beside: str = ""
    contradict: bool = False

    def __str__(self) -> str:
        if not self.kernels:
            return "no kernel depends on it"
        if self.contradict:
            text = (
                f"{counted(self.kernels, 'kernel')} {form(self.kernels, 'depends', 'depend')} on "
                "it and contradict each other"
            )
            return f"{text}: +- {100 * self.error:.0f} %"
        if self.beside:
            return f"kernels determine it only together with {self.beside}"
        return (
            f"{counted(self.kernels, 'kernel')} {form(self.kernels, 'depends', 'depend')} on it, "
            f"too weakly: +- {100 * self.error:.0f} %"
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """Result of the fit for one figure.

    Attributes:
        figure: the figure before the fit.
        value: the fitted value; the old one if ``why`` is set.
        error: relative standard error; 0 if it is not fitted.
        kernels: number of kernels that depend on it.
        why: reason why it is not fitted; None if it is.
    """

    figure: Figure
    value: float
    error: float
    kernels: int
    why: Undetermined | None = None

    @property
    def change(self) -> float:
        """The new value over the old one, less 1."""
        return self.value / float(self.figure.value) - 1.0


@dataclass(frozen=True, slots=True)
class Fit:
    """A fit; errors are ``ln(model / measured)`` per observation, in their order.

    Attributes:
        estimates: one per figure.
        observations: the fitted observations.
        before: errors with the old figures.
        after: errors with the fitted figures; undetermined ones keep their old values.
        held_out: error of each kernel with figures fitted without it.
        weights: 0 to 1; near 0: an outlier that did not affect the fit.
        scale: spread of the residuals in units of the times' noise: above 1 the model is incomplete.
        rank: number of combinations of figures that the kernels determine.
    """

    estimates: tuple[Estimate, ...]
    observations: tuple[Observation, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    held_out: tuple[float, ...]
    weights: tuple[float, ...]
    scale: float
    rank: int

    @property
    def fitted(self) -> tuple[Estimate, ...]:
        """The figures that the kernels determine."""
        return tuple(e for e in self.estimates if e.why is None)


def fit(
    observations: Sequence[Observation],
    target: TargetSpec,
    figures: Sequence[Figure],
    *,
    watch: Callable[[], object] = lambda: None,
    limit: float = LIMIT,
) -> Fit:
    """Fit figures of a chip.

    Args:
        observations: measured kernels.
        target: the chip, with the initial values.
        figures: its figures that may change; none is 0.
        watch: called after each round.
        limit: the largest relative standard error of a figure that counts as fitted.
    """
    problem = _Problem(observations, target, figures, limit)
    before = problem.errors(problem.start)
    state = _solved(problem, watch)
    chosen = _determined(problem, state)
    after = problem.errors(np.where(chosen.able, state.point, problem.start))
    held = _held_out(problem, state)
    return Fit(
        tuple(
            Estimate(
                f,
                float(math.exp(state.point[j])) if chosen.able[j] else float(f.value),
                float(chosen.errors[j]) if chosen.able[j] else 0.0,
                chosen.kernels[j],
                None if chosen.able[j] else chosen.why(j, figures),
            )
            for j, f in enumerate(figures)
        ),
        tuple(observations),
        tuple(before.tolist()),
        tuple(after.tolist()),
        tuple(held.tolist()),
        tuple(state.weights.tolist()),
        state.scale,
        chosen.rank,
    )


class _Problem:
    """Times and their derivatives at a point: the logarithms of the figures."""

    def __init__(
        self,
        observations: Sequence[Observation],
        target: TargetSpec,
        figures: Sequence[Figure],
        limit: float,
    ) -> None:
        self.observations, self.target, self.limit = observations, target, limit
        self.names = [f.name for f in figures]
        self.start: Floats = np.log([float(f.value) for f in figures])
        self.logs: Floats = np.log([o.us for o in observations])
        self.noise: Floats = np.array([math.hypot(o.noise, _NOISE) for o in observations])

    def chip(self, point: Floats) -> TargetSpec:
        """Return the chip at a point."""
        values = np.exp(point).tolist()
        return self.target.with_values(dict(zip(self.names, values, strict=True)))

    def errors(self, point: Floats, only: Sequence[int] | None = None) -> Floats:
        """Return ln(model / measured) at a point, for all observations or some."""
        chip = self.chip(point)
        rows = range(len(self.observations)) if only is None else only
        logs = [math.log(self.observations[i].predict(chip)) - self.logs[i] for i in rows]
        return np.array(logs)

    def slopes(self, point: Floats, errors: Floats) -> Floats:
        """Return the derivatives of the errors by the logarithms of the figures, from finite differences."""
        out: Floats = np.zeros((len(self.observations), len(self.names)))
        base = np.exp(point)
        here = self.chip(point)
        for j, name in enumerate(self.names):
            chip = here.with_values({name: float(base[j] * math.exp(_STEP))})
            for i, o in enumerate(self.observations):
                if o.depends is None or name in o.depends:
                    moved = math.log(o.predict(chip)) - self.logs[i]
                    out[i, j] = (moved - errors[i]) / _STEP
        return out


@dataclass(frozen=True, slots=True)
class _State:
    """State after the last round: ``errors`` and ``slopes`` are those at ``point``, not in units of noise."""

    point: Floats
    errors: Floats
    slopes: Floats
    weights: Floats
    scale: float


def _solved(problem: _Problem, watch: Callable[[], object]) -> _State:
    point = derived = problem.start
    errors = problem.errors(point)
    slopes = problem.slopes(point, errors)
    watch()
    for kind, rounds in ((_huber, _HUBER_ROUNDS), (_tukey, _TUKEY_ROUNDS)):
        for _ in range(rounds):
            scale = _scale(errors / problem.noise, slopes)
            weights = kind(errors / problem.noise / scale)
            step = _step(problem, _State(point, errors, slopes, weights, scale))
            longest = float(np.abs(step).max(initial=0.0))
            step *= min(1.0, _LONGEST / longest) if longest else 1.0
            point, errors = _shortened(problem, point, errors, step, weights / scale**2)
            if np.abs(point - derived).max(initial=0.0) > _MOVED:
                derived, slopes = point, problem.slopes(point, errors)
            watch()
            if longest <= _CLOSE:
                break
    scale = _scale(errors / problem.noise, slopes)
    return _State(point, errors, slopes, _tukey(errors / problem.noise / scale), scale)


def _shortened(
    problem: _Problem, point: Floats, errors: Floats, step: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    """Return the point after a step, and its errors; the step is halved while it increases the error."""

    def loss(at: Floats, found: Floats) -> float:
        prior = (at - problem.start) / _PRIOR
        return float(weights @ (found / problem.noise) ** 2 + prior @ prior)

    least = loss(point, errors)
    for _ in range(4):
        there = np.clip(point + step, problem.start - _FARTHEST, problem.start + _FARTHEST)
        found = problem.errors(there)
        if loss(there, found) <= least * (1 + 1e-9):
            return there, found
        step = step / 2
    return point, errors


def _information(problem: _Problem, state: _State, rows: Any = slice(None)) -> Floats:
    """Return the information matrix of the figures, the inverse of their covariance."""
    scaled = state.slopes[rows] / problem.noise[rows, None]
    found: Floats = scaled.T @ (scaled * (state.weights[rows, None] / state.scale**2))
    return found


def _step(problem: _Problem, state: _State, rows: Any = slice(None)) -> Floats:
    """Return the weighted least-squares step for the slopes."""
    pull = state.weights[rows] * state.errors[rows] / (problem.noise[rows] * state.scale) ** 2
    gradient = state.slopes[rows].T @ pull + (state.point - problem.start) / _PRIOR**2
    whole = _information(problem, state, rows) + np.eye(len(gradient)) / _PRIOR**2
    found: Floats = -np.linalg.solve(whole, gradient)
    return found


def _scale(residuals: Floats, slopes: Floats) -> float:
    """Return the spread of residuals in units of noise, from their median; never below 1."""
    count = len(residuals)
    used = min(int((np.abs(slopes).max(axis=0, initial=0.0) > 0).sum()), count // 2)
    spread = 1.4826 * float(np.median(np.abs(residuals)))
    return max(1.0, spread * math.sqrt(count / max(count - used, 1)))


def _huber(u: Floats) -> Floats:
    found: Floats = _HUBER / np.maximum(np.abs(u), _HUBER)
    return found


def _tukey(u: Floats) -> Floats:
    found: Floats = np.clip(1.0 - (u / _TUKEY) ** 2, 0.0, 1.0) ** 2
    return found


@dataclass(frozen=True, slots=True)
class _Determined:
    """Rank test: the figures that the kernels determine.

    Attributes:
        able: by figure, True if it is determined.
        errors: standard errors by figure, in the logarithm.
        smooth: ``errors`` if all kernels agreed as well as most do.
        alone: ``errors`` if all other figures were known.
        correlation: of the errors.
        kernels: number of kernels that depend on each figure.
        rank: number of determined directions.
        limit: the largest error of a determined figure.
    """

    able: npt.NDArray[np.bool_]
    errors: Floats
    smooth: Floats
    alone: Floats
    correlation: Floats
    kernels: tuple[int, ...]
    rank: int
    limit: float

    def why(self, j: int, figures: Sequence[Figure]) -> Undetermined:
        """Return the reason why figure ``j`` is not determined."""
        count = self.kernels[j]
        if not count:
            return Undetermined(0, math.inf)
        if self.smooth[j] <= self.limit:
            return Undetermined(count, float(self.errors[j]), contradict=True)
        beside = ""
        if self.alone[j] <= self.limit:
            others = np.abs(self.correlation[j]) * ~self.able
            others[j] = 0.0
            beside = figures[int(others.argmax())].name if others.max() > 0 else ""
        return Undetermined(count, float(self.errors[j]), beside)


def _determined(problem: _Problem, state: _State, rows: Any = slice(None)) -> _Determined:
    information = _information(problem, state, rows)
    whole = information + np.eye(len(information)) / _PRIOR**2
    covariance = np.linalg.inv(whole)
    smooth = np.sqrt(np.diag(covariance))
    # Residuals of few kernels scatter: they count only if they are not accidental.
    seen = _by_residuals(problem, state, covariance, rows)
    errors = np.where(seen > _CONTRADICTS * smooth, seen, smooth)
    alone = 1.0 / np.sqrt(np.diag(whole))
    used = (np.abs(state.slopes[rows]) > _DEPENDS) & (state.weights[rows, None] > 0)
    # If most kernels that a figure determines are outliers, the rest is not a majority.
    size = np.abs(state.slopes[rows])
    size *= size >= _RESTS * size.max(axis=0, initial=0.0)
    agreeing = state.weights[rows] @ size / np.maximum(size.sum(axis=0), 1e-300)
    errors = np.where(agreeing < _AGREE, np.maximum(errors, 1.0 - agreeing), errors)
    # A direction is determined if the kernels alone fix it within the limit.
    directions = np.linalg.eigvalsh(information)
    return _Determined(
        (errors <= problem.limit) & used.any(axis=0),
        errors,
        smooth,
        alone,
        covariance / np.outer(smooth, smooth),
        tuple(int(n) for n in used.sum(axis=0)),
        int((directions > problem.limit**-2).sum()),
        problem.limit,
    )


def _by_residuals(problem: _Problem, state: _State, covariance: Any, rows: Any) -> Floats:
    """Return standard errors from the residuals of the kernels that a figure rests on: large if these disagree."""
    scaled = state.slopes[rows] / problem.noise[rows, None]
    weights = state.weights[rows] / state.scale**2
    # Leverage: how much a kernel determines its own residual.
    leverage = weights * np.einsum("ij,jk,ik->i", scaled, covariance, scaled)
    residuals = state.errors[rows] / problem.noise[rows] / np.sqrt(np.maximum(1.0 - leverage, 0.05))
    pull = scaled * (weights * residuals)[:, None]
    found: Floats = np.sqrt(np.diag(covariance @ (pull.T @ pull) @ covariance))
    return found


def _held_out(problem: _Problem, state: _State) -> Floats:
    """Return the error of every observation with figures fitted to other kernels: one step from the full fit."""
    kernels = list(dict.fromkeys(o.kernel for o in problem.observations))
    part = {k: i % _PARTS for i, k in enumerate(kernels)}
    out: Floats = np.zeros(len(problem.observations))
    of = np.array([part[o.kernel] for o in problem.observations])
    for number in range(_PARTS):
        rows, left = np.flatnonzero(of == number), np.flatnonzero(of != number)
        if not len(rows):
            continue
        point = state.point + _step(problem, state, left)
        able = _determined(problem, state, left).able
        there = np.where(able, point, problem.start)
        out[rows] = problem.errors(there, rows.tolist())
    return out


def values_of(fitted: Fit) -> Mapping[str, float]:
    """Return the fitted values by name."""
    return {e.figure.name: e.value for e in fitted.fitted}
