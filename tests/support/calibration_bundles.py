"""Bundles with the times that the model gives for a hidden chip, with noise and outliers."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache

from autofuse.measure.calibration.bundle import Bundle
from autofuse.measure.calibration.cases import Case, calibration_cases
from autofuse.measure.calibration.parameters import fitting_figures
from autofuse.targets import TargetSpec, load_chip

__all__ = ["TARGET", "bundle", "hidden"]

TARGET = load_chip("ascend910b2")


@lru_cache(maxsize=1)
def hidden() -> tuple[TargetSpec, dict[str, float]]:
    rng = random.Random(3)
    values = {f.name: float(f.value) * rng.uniform(0.8, 1.25) for f in fitting_figures(TARGET)}
    return TARGET.with_values(values), values


def chosen(case: Case) -> bool:
    """A small kit: all about copies, start and barriers, and a few vector calls."""
    return not case.name.startswith("vector.") or ".exp_" in case.name or ".unary_" in case.name


def bundle(
    *,
    fake: bool = False,
    only: Callable[[Case], bool] = chosen,
    more: Callable[[Case], float] = lambda _: 0.0,
    repeats: int = 40,
    **changes: object,
) -> Bundle:
    """What a hidden chip says; ``more``: microseconds of a case that the model does not have."""
    rows = []
    for c in filter(only, calibration_cases(TARGET)):
        # Times of a case stay what they are when others join the kit.
        rng = random.Random(f"9/{c.name}")
        us = c.model_us(hidden()[0]) + more(c)
        # One time in twenty is an outlier.
        times = [
            us * rng.gauss(1.0, 0.05) * (2.5 if rng.random() < 0.05 else 1.0)
            for _ in range(repeats)
        ]
        rows.append(
            {
                "case": c.name,
                "program": c.program,
                "parameters": dict(c.parameters),
                "l2": c.l2,
                "state": "measured",
                "times_us": times,
            }
        )
    value = {
        "schema": "autofuse.bundle/1",
        "autofuse": "1.0",
        "fake": fake,
        "target": "ascend910b2",
        "chip": {"soc": "Ascend910B2"},
        "cann": "8.5.0",
        "complete": True,
        "calibration": rows,
    }
    return Bundle.model_validate({**value, **changes})
