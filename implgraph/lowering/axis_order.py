"""The order of a group's axes: the one in which most of its memory is walked through element by element."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import Symbol
from autofuse.implgraph.ir.iteration_space import Axes

__all__ = ["Traffic", "axis_order"]

#: A typical size for a symbol without a hint.
TYPICAL = 64
#: A copy of single elements costs about as much as one of so many neighbours.
SCATTERED = 8


@frozen
class Traffic:
    """A tensor that is copied from or to GM: its stride, in elements, along every axis on which it varies."""

    strides: Mapping[int, Expr]


def axis_order(
    axes: Axes, sizes: Sequence[Expr], traffic: Sequence[Traffic], symbols: Sequence[Symbol]
) -> Axes:
    """The axes, outermost first.

    Candidates are the given order and the orders in which one of the tensors lies in memory; the first of the cheapest
    wins, so that nothing changes without a reason.

    Args:
        axes: ids of the axes, in the order of the group's first output.
        sizes: size by id.
        traffic: what is copied.
        symbols: for typical sizes.
    """
    env = {s.name: max(s.min, TYPICAL if s.hint is None else s.hint) for s in symbols}
    number = {a: sizes[a].evaluate(env) for a in axes}
    steps = [
        {a: abs(s.evaluate(env)) for a, s in t.strides.items() if number.get(a, 1) != 1}
        for t in traffic
    ]
    steps = [s for s in steps if s]
    others = dict.fromkeys(_sorted(axes, s) for s in steps)
    others.pop(axes, None)
    if not others:
        return axes
    best, least = axes, _cost(axes, number, steps)
    for order in others:
        cost = _cost(order, number, steps)
        if cost < least:
            best, least = order, cost
    return best


def _sorted(axes: Axes, strides: Mapping[int, int]) -> Axes:
    """``axes`` with those of a tensor in the order of memory; the others stay where they are."""
    mine = iter(sorted((a for a in axes if a in strides), key=lambda a: -strides[a]))
    return tuple(next(mine) if a in strides else a for a in axes)


def _cost(order: Axes, number: Mapping[int, int], steps: Sequence[Mapping[int, int]]) -> int:
    """Elements that are copied; those of a tensor whose innermost axis is not dense count several times."""
    total = 0
    for strides in steps:
        inner = next(a for a in reversed(order) if a in strides)
        count = math.prod(number[a] for a in strides)
        total += count if strides[inner] == 1 else count * SCATTERED
    return total
