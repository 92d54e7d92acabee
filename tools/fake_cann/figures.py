"""Figures of a fake chip: a target's, each changed by some percent, and one cost that the model lacks."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import fields

from autofuse.targets import TargetSpec

__all__ = ["HIDDEN", "changed", "perturbed", "read_figures", "text_of"]

#: The cost that the model lacks: microseconds for each GM tensor beyond two that a launch touches.
HIDDEN = "hidden.tensor_us"
HIDDEN_US = 0.35
#: Maximum relative change, up or down.
SPREAD = 0.25
_PLAIN = ("kernel_head_us", "sync_all")
#: Figures that are not times but properties of a chip, or factors of at least 1.
_KEPT = frozenset({"vector_fused", "vector_issue", "short_row"})
_AT_LEAST_1 = frozenset({"conflict_sources", "conflict_result"})


def perturbed(target: TargetSpec, seed: int, spread: float = SPREAD) -> dict[str, float]:
    """Figures of a fake chip by name, as ``autofuse targets`` names them; equal seeds give equal figures.

    Args:
        target: the chip that it approximates.
        seed: seed of the changes.
        spread: maximum relative change of a figure, 0.25 for a quarter.
    """
    numbers = random.Random(f"{target.name}/{seed}")
    out: dict[str, float] = {}
    for name, value in _figures(target).items():
        factor = math.exp(numbers.uniform(-1.0, 1.0) * math.log1p(spread))
        moved = value * factor
        if name.removeprefix("model.") in _AT_LEAST_1:
            moved = max(1.0, moved)
        out[name] = float(f"{moved:.5g}")
    return {**out, HIDDEN: HIDDEN_US}


def _figures(target: TargetSpec) -> dict[str, float]:
    found = {name: float(getattr(target, name)) for name in _PLAIN}
    for f in fields(target.model):
        if f.name not in _KEPT:
            found[f"model.{f.name}"] = float(getattr(target.model, f.name))
    for row, cost in target.vector.items():
        for part in ("head", "rate16", "rate32"):
            found[f"vector.{row}.{part}"] = float(getattr(cost, part))
    return {k: v for k, v in found.items() if v}


def changed(target: TargetSpec, figures: Mapping[str, float]) -> TargetSpec:
    """Return the target with changed figures; ValueError for an unknown name."""
    unknown = sorted(figures.keys() - _figures(target).keys() - {HIDDEN})
    if unknown:
        raise ValueError(f"{target.name} has no figure {', '.join(unknown)}")
    return target.with_values({n: v for n, v in figures.items() if n != HIDDEN})


def text_of(figures: Mapping[str, float]) -> str:
    """Return the text of a file of figures."""
    return "".join(f'"{name}" = {value!r}\n' for name, value in sorted(figures.items()))


def read_figures(text: str) -> dict[str, float]:
    """Parse the output of :func:`text_of`, or tables such as ``[model]``; ValueError for a non-number."""
    try:
        import tomllib
    except ImportError:
        import tomli as tomllib
    out: dict[str, float] = {}

    def walk(table: Mapping[str, object], prefix: str) -> None:
        for name, value in table.items():
            if isinstance(value, Mapping):
                walk(value, f"{prefix}{name}.")
            elif isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
                out[f"{prefix}{name}".removeprefix("figures.")] = float(value)
            else:
                raise ValueError(f"{prefix}{name} is {value!r}, not a number")

    walk(tomllib.loads(text), "")
    return out
