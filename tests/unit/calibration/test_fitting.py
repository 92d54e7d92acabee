"""The fit on times that the model itself gives, with noise, outliers and a cost that it lacks."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace
from functools import lru_cache

import pytest
from calibration_works import observations, works

from autofuse.measure.calibration.fitting import LIMIT, Fit, fit
from autofuse.measure.calibration.parameters import fitting_figures
from autofuse.measure.calibration.written import Work
from autofuse.targets import Figure, TargetSpec, load_chip

TARGET = load_chip("ascend910b2")
KINDS = ("unary", "exp", "reduce")


def figures() -> tuple[Figure, ...]:
    """All that can be fitted, of some rows of vector calls."""
    rows = ("none", "binary", *KINDS)
    return tuple(
        f
        for f in fitting_figures(TARGET)
        if f.name[:7] != "vector." or f.name.split(".")[1] in rows
    )


@lru_cache(maxsize=2)
def hidden() -> tuple[TargetSpec, dict[str, float]]:
    """A chip that nobody knows, and its figures."""
    rng = random.Random(11)
    values = {f.name: float(f.value) * rng.uniform(0.75, 1.3) for f in figures()}
    return TARGET.with_values(values), values


def lacks(kind: str, work: Work) -> float:
    """Microseconds that the model knows nothing of: each scattered copy takes longer."""
    return 6.0 * work.cores / TARGET.aiv_cores if kind == "shared" else 0.0


@lru_cache(maxsize=1)
def fitted() -> Fit:
    cases = {
        name: c
        for name, c in works(TARGET).items()
        if c.kind[:7] != "vector_" or c.kind[7:] in KINDS
    }
    measured = observations(cases, hidden()[0], lacks=lacks, repeats=60, seed=4)
    return fit(measured, TARGET, figures())


def test_figures_are_recovered_within_five_percent() -> None:
    wanted = hidden()[1]
    off = {e.figure.name: e.value / wanted[e.figure.name] - 1 for e in fitted().fitted}
    lacking = ("model.shared_gbs", "model.same_order_gbs")
    assert {n: o for n, o in off.items() if abs(o) > 0.05 and n not in lacking} == {}
    for name in ("kernel_head_us", "sync_all", "model.read_gbs", "vector.exp.head", "model.loop"):
        assert name in off
    assert len(off) >= 22
    assert all(0 < e.error <= LIMIT for e in fitted().fitted)


def test_errors_shrink_and_are_told_for_kernels_that_were_held_out() -> None:
    def middle(errors: tuple[float, ...]) -> float:
        return statistics.median(map(abs, errors))

    found = fitted()
    assert middle(found.before) > 0.08
    assert middle(found.after) < 0.02
    assert middle(found.after) <= middle(found.held_out) < 0.04


def test_what_kernels_do_not_determine_is_left_unchanged_with_the_reason() -> None:
    left = {e.figure.name: e for e in fitted().estimates if e.why is not None}
    assert all(e.value == e.figure.value and e.error == 0 for e in left.values())
    # All stores of a large tensor go through L2 and on to memory.
    assert {"model.write_gbs", "model.writeback_gbs"} <= left.keys()
    assert "together with" in str(left["model.write_gbs"].why) + str(
        left["model.writeback_gbs"].why
    )


def test_no_kernel_depends_on_a_figure() -> None:
    cases = {n: c for n, c in works(TARGET).items() if c.kind in ("start", "sync", "scalar")}
    found = fit(observations(cases, TARGET), TARGET, figures())
    why = {e.figure.name: str(e.why) for e in found.estimates}
    assert why["model.read_gbs"] == why["vector.exp.head"] == "no kernel depends on it"
    assert why["sync_all"] == "None"
    assert found.rank < len(found.estimates)


def test_outliers_are_given_no_weight() -> None:
    cases = {n: c for n, c in works(TARGET).items() if c.kind in ("start", "sync", "scalar")}
    cases |= {f"again_{n}": c for n, c in cases.items()}
    measured = observations(cases, TARGET, outliers=0.0)
    measured[2] = replace(measured[2], us=3 * measured[2].us)
    found = fit(measured, TARGET, figures())
    assert found.weights[2] == 0.0
    assert statistics.median(found.weights) > 0.5
    head = next(e for e in found.fitted if e.figure.name == "kernel_head_us")
    assert head.value == pytest.approx(TARGET.kernel_head_us, rel=0.02)


def test_kernels_that_contradict_each_other_determine_nothing() -> None:
    cases = {n: c for n, c in works(TARGET).items() if c.kind in ("start", "sync")}
    once = observations(cases, TARGET, noise=0.01, outliers=0.0)
    # The second time barriers take half as long again: no figure explains both.
    again = [replace(o, us=o.us * (1.5 if o.kind == "sync" else 1.0)) for o in once]
    measured = [*once, *again]
    found = fit(measured, TARGET, figures())
    sync = next(e for e in found.estimates if e.figure.name == "sync_all")
    assert sync.value == TARGET.sync_all
    assert "contradict" in str(sync.why)


def test_equal_observations_give_equal_fits() -> None:
    cases = {n: c for n, c in works(TARGET).items() if c.kind in ("start", "sync", "scalar")}
    one, other = (fit(observations(cases, TARGET), TARGET, figures()) for _ in range(2))
    assert one.estimates == other.estimates


def test_only_costs_are_fitted() -> None:
    names = {f.name for f in fitting_figures(TARGET)}
    assert {"kernel_head_us", "sync_all", "model.read_gbs", "vector.exp.rate32"} <= names
    assert not names & {"clock_mhz", "aiv_cores", "l2_bytes", "model.vector_issue", "load_rate"}
    kept = {f.status for f in fitting_figures(TARGET, ("vendor", "measured"))}
    assert kept == {"fitted", "modelled", "assumed"}
