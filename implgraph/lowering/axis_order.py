"""The order of a group's axes: the one in which most of its memory accesses are contiguous."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import Symbol
from autofuse.implgraph.ir.iteration_space import Axes

__all__ = ["Traffic", "axis_order"]

#: Typical size of a symbol without a hint.
TYPICAL = 64
#: Copying a single element costs about as much as copying this many neighbours.
SCATTERED = 8


@frozen
class Traffic:
    """A tensor copied from or to GM, by its stride, in elements, along every axis on which it varies."""

    strides: Mapping[int, Expr]


def axis_order(
    axes: Axes, sizes: Sequence[Expr], traffic: Sequence[Traffic], symbols: Sequence[Symbol]
) -> Axes:
    """Return the axes, outermost first.

    Candidates are the given order and the memory order of each tensor; ties keep the earlier candidate, so the given
    order changes only for a gain.

    Args:
        axes: ids of the axes, in the order of the group's first output.
        sizes: size by id.
        traffic: the copied tensors.
        symbols: symbols of the graph, for typical sizes.
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
    """Return ``axes`` with those of a tensor in memory order; the others stay in place."""
    mine = iter(sorted((a for a in axes if a in strides), key=lambda a: -strides[a]))
    return tuple(next(mine) if a in strides else a for a in axes)


def _cost(order: Axes, number: Mapping[int, int], steps: Sequence[Mapping[int, int]]) -> int:
    """Return the number of copied elements; a tensor whose innermost axis is not dense counts several times."""
    total = 0
    for strides in steps:
        inner = next(a for a in reversed(order) if a in strides)
        count = math.prod(number[a] for a in strides)
        total += count if strides[inner] == 1 else count * SCATTERED
    return total
