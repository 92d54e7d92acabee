"""The cost model against times measured on silicon: a bounded ``benchmarks/model/validate_model.py``."""

import math
from pathlib import Path

import pytest
import validate_model as validation
from measured_kernels import CHIPS, chip_of_cases, forced, read_cases, series, work_of

from autofuse.measure.calibration.written import evaluate
from autofuse.targets import load_chip

#: Held-out error that is aimed at.
TARGET = {"910b2": 0.10, "950pr": 0.06}
#: The error on a single op that is left out, at most: for Maximum on 950PR more than the aim, see docs/performance.md.
WITHOUT = {"910b2": 0.10, "950pr": 0.09}


@pytest.mark.parametrize("point", list(series()), ids=lambda p: f"{p.chip}: {p.name}")
def test_documented_series(point) -> None:
    """Within 15 % of what was measured, the aim of the model."""
    assert validation.predicted(point) == pytest.approx(point.us, rel=0.15)


def test_what_is_put_in_is_marked() -> None:
    points = list(series())
    assert sum(not p.sets for p in points) >= len(points) / 3
    put_in = [p for p in points if p.sets]
    assert len(put_in) >= 10
    for p in put_in:
        figures = {f.name: f for f in load_chip(CHIPS[p.chip]).figures()}
        assert figures[f"model.{p.sets}"].status == "measured"


def test_ways_to_be_faster_are_in_the_right_order() -> None:
    """Two buffers, L2 left to what is written, no bank conflicts: each helps, as it did on silicon."""
    us = {(p.chip, p.name): validation.predicted(p) for p in series()}
    for chip, kib in (("910b2", 32), ("950pr", 42)):
        both = us[chip, f"Add, both buffers, {kib} KiB"]
        assert us[chip, f"Add, both buffers, {kib} KiB, inputs bypass L2"] < 0.85 * both
        assert both <= us[chip, f"Add, all cores, {kib} KiB, nothing overlaps"] * 1.001
    vector = [
        us["910b2", f"Add vector time, {x}"] for x in ("no bank conflicts", "operands collide")
    ]
    assert vector[0] < 0.6 * vector[1]


@pytest.mark.corpus
@pytest.mark.parametrize("chip", sorted(CHIPS))
def test_the_figures_in_the_target_file_are_the_fitted_ones(chip: str, shared_dir: Path) -> None:
    target = chip_of_cases(chip)
    cases = [c for c in read_cases(shared_dir / "facts" / "npu_times.csv", chip) if forced(c)]
    assert len(cases) == 53
    model = validation.predict(target)
    made = [(work_of(c, target), c.us) for c in cases]
    here = {f.name: f.value for f in target.figures() if f.status == "fitted"}
    found = validation.error(model, here, made)
    assert found < TARGET[chip]
    best = validation.fit(model, here, made, rounds=1)
    assert validation.error(model, best, made) > found - 0.002
    direct = [abs(math.log(evaluate(w, target).total / us)) for w, us in made]
    assert found == pytest.approx(sum(direct) / len(direct))


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.parametrize("chip", sorted(CHIPS))
def test_held_out_error(chip: str, shared_dir: Path) -> None:
    cases = [c for c in read_cases(shared_dir / "facts" / "npu_times.csv", chip) if forced(c)]
    found = validation.validate(chip, cases, divisions=1)
    assert found.held_out < TARGET[chip]
    assert set(found.without) == {"gelu", "maximum", "sigmoid"}
    assert found.by_op(found.without) < TARGET[chip]
    assert max(found.without.values()) < WITHOUT[chip]
    assert found.inside <= found.held_out
    assert sum(n for n, _ in found.by.values()) == found.cases == 53
    # Bytes alone do not explain what 910B2 does; its vector unit is what is missing there.
    if chip == "910b2":
        assert found.held_out < 0.5 * found.roofline_five
        for op, e in found.without.items():
            assert e < found.roofline_without[op]


def test_fit_finds_what_it_was_made_from() -> None:
    def line(values):
        return lambda work: values["a"] + values["b"] * work

    made = [(float(w), 3.0 + 0.5 * w) for w in range(1, 30)]
    found = validation.fit(line, {"a": 1.0, "b": 1.0}, made)
    assert found == pytest.approx({"a": 3.0, "b": 0.5}, rel=1e-2)


def test_folds_are_a_partition() -> None:
    for seed in range(3):
        parts = validation.folds(53, seed)
        assert sorted(i for p in parts for i in p) == list(range(53))
        assert {len(p) for p in parts} == {10, 11}
    assert validation.folds(53, 0) != validation.folds(53, 1)
