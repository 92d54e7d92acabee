"""Inputs with close decisions: operands of a comparison, minimum or maximum are equal or nearly so.

With random numbers a sum of two hundred terms is far from the constant that it is compared with, and an integer never
equals the one that a mask tests for. Errors in the compared values, in the branch that is not taken, or in the constant
of a Minimum that no number reaches would not show. So for every decision one input is solved for, element by element,
so that the operands agree; then it is moved slightly to either side. An element is kept unchanged if its operands did
not come closer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode
from autofuse.machines.twin.oracle.data import (
    divisors,
    indexing_inputs,
    positive_inputs,
    random_inputs,
)
from autofuse.machines.twin.oracle.indices import bring_inside
from autofuse.machines.twin.oracle.oracle import evaluate, ulp_of
from autofuse.machines.twin.oracle.parts import elements, sources, up_to
from autofuse.machines.twin.oracle.rounding import round_result

__all__ = ["balanced_inputs"]

Array: TypeAlias = npt.NDArray[Any]
_Residual: TypeAlias = Callable[[Array], Array]

#: Most decisions considered, inputs tried for each, and steps of the search.
_DECISIONS, _TRIES, _STEPS = 16, 4, 12
_STARTS = (0.0, 1.0, -1.0, 2.0, 2.0**-6, 2.0**-12)
#: Products in the field of four elements, whose addition is XOR.
_TIMES = ((0, 0, 0, 0), (0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2))
#: A limit that a smaller share of the random results reaches is a decision too.
_RARE = 0.05


def balanced_inputs(
    graph: FusionGraph,
    symbols: Mapping[str, int],
    seed: int,
    *,
    most: int | None = None,
    given: Mapping[str, Array] | None = None,
) -> dict[str, Array] | None:
    """Random inputs, some of them moved to where comparisons change their result.

    Args:
        graph: the graph.
        symbols: a value per symbol.
        seed: seed of the numbers. For an input of one element, seeds alternate between equal operands, a difference to
            either side, and the unchanged input; larger inputs contain all of these. For up to five such inputs, 16
            consecutive seeds from a multiple of 16 cover every combination for any two.
        most: elements that the search may compute; decisions that exceed the rest of the budget are skipped.
        given: arrays of inputs that stay unchanged.

    Returns:
        As :func:`~autofuse.machines.twin.oracle.data.random_inputs`; None if no decision could be made close.
    """
    compared, limited = _comparisons(graph), _limited(graph)
    if not compared and not limited:
        return None
    inputs = random_inputs(graph, symbols, seed, given=given)
    rng = np.random.Generator(np.random.SFC64([seed, 0xBA1A]))
    moved = {*indexing_inputs(graph), *(given or {})}  # indices stay valid
    nothing = len(moved)
    single, left = 0, most
    # Inputs that must be positive or nonzero for finite results stay so.
    positive, nonzero = positive_inputs(graph), divisors(graph)
    limited = _out_of_reach(graph, limited[:_DECISIONS], inputs, symbols, left)
    for node in (*compared, *limited)[:_DECISIONS]:
        part = up_to(graph, _operands(node))
        names = [n for n in sources(part) if n not in moved and inputs[n].dtype.kind in "fiuV"]
        order = sorted(rng.permutation(len(names)), key=lambda i: -inputs[names[i]].size)
        cost = elements(part, symbols) * (len(_STARTS) + _STEPS + 1)
        for name in [names[i] for i in order][:_TRIES]:
            if left is not None:
                if cost > left:
                    break
                left -= cost
            before = inputs[name].copy()
            if _balance(part, node, symbols, inputs, name, rng, _turn(seed, single)):
                x = inputs[name]
                bad = (x < 0 if name in positive else False) | (
                    x == 0 if name in nonzero else False
                )
                np.copyto(x, before, where=bad)
                moved.add(name)
                single += x.size == 1
                break
    if len(moved) == nothing:
        return None
    bring_inside(graph, inputs, symbols, seed, fixed=given or (), drawn=False)
    return inputs


def _turn(seed: int, place: int) -> int:
    """Return the variant, 0 to 3, of an input of one element.

    An orthogonal array of strength 2 over the field of four elements: ``a + place * b`` for the digits ``a`` and ``b``
    of the seed, and ``b`` alone for the fifth place.
    """
    a, b, k = seed % 4, seed // 4 % 4, place % 5
    return b if k == 4 else a ^ _TIMES[k][b]


def _comparisons(graph: FusionGraph) -> list[FusionNode]:
    """Return the nodes that compute bools from numbers."""
    return [
        n
        for n in graph.nodes
        if graph.tensors[n.outputs[0]].dtype.kind == "b"
        and any(graph.tensors[x].dtype.kind in "fiu" for x in n.inputs if isinstance(x, str))
    ]


def _limited(graph: FusionGraph) -> list[FusionNode]:
    """Return the minima and maxima with a constant."""
    return [
        n
        for n in graph.nodes
        if n.op in ("Minimum", "Maximum") and any(isinstance(x, Constant) for x in n.inputs)
    ]


def _operands(node: FusionNode) -> set[str]:
    return {x for x in node.inputs if isinstance(x, str)}


def _out_of_reach(
    graph: FusionGraph,
    nodes: Sequence[FusionNode],
    inputs: Mapping[str, Array],
    symbols: Mapping[str, int],
    most: int | None,
) -> list[FusionNode]:
    """Return the minima and maxima for which nearly all results are on one side of the constant."""
    out = []
    for n in nodes:
        part = up_to(graph, _operands(n))
        if not part.outputs or (most is not None and elements(part, symbols) > most // 64):
            continue
        with np.errstate(all="ignore"):
            (found,) = evaluate(part, inputs, symbols).values()
            limit = next(x.value for x in n.inputs if isinstance(x, Constant))
            above = found.value.astype(np.float64) > float(limit)
        if above.size and min(np.mean(above), np.mean(~above)) < _RARE:
            out.append(n)
    return out


def _balance(
    part: FusionGraph,
    node: FusionNode,
    symbols: Mapping[str, int],
    inputs: dict[str, Array],
    name: str,
    rng: np.random.Generator,
    alone: int,
) -> bool:
    """Move one input; a single element moves by the variant ``alone``.

    Return False, without a change, if that brings no operands closer.
    """
    x = inputs[name]

    def difference(values: Array) -> Array:
        with np.errstate(all="ignore"):
            found = evaluate(
                part, {**inputs, name: values.astype(x.dtype).reshape(x.shape)}, symbols
            )
            operands = [
                np.asarray(o.value if isinstance(o, Constant) else found[o].value)
                for o in node.inputs[:2]
            ]
            a, b = (*operands, np.asarray(0))[:2]
            return np.asarray(a.astype(np.float64) - b.astype(np.float64))

    start = x.reshape(-1).astype(np.float64)
    places = _places(x.shape, difference(start).shape, rng)
    if places is None:
        return False

    def residual(values: Array) -> Array:
        return difference(values).reshape(-1)[places]

    root, better = _solved(residual, start)
    if not better.any():
        return False
    integer = x.dtype.kind in "iu"
    # Smaller than most numbers, so that one term of a sum flips the decision; larger than rounding.
    step = np.exp2(-rng.integers(2, 9, x.size))
    if not integer:
        step = np.maximum(step, 16 * ulp_of(root, part.tensors[name].dtype))
    # Equal, above, below, and unchanged.
    turn = rng.integers(0, 4, x.size) if x.size > 1 else np.full(1, alone)
    near = root + np.select([turn == 1, turn == 2], [1.0, -1.0]) * (1.0 if integer else step)
    values = np.where(better & (turn < 3), near, start)
    if integer:
        values = round_result(np.rint(values), part.tensors[name].dtype)
    # In place: a strided input stays the view that it is.
    x[...] = values.astype(x.dtype).reshape(x.shape)
    return True


def _places(
    shape: tuple[int, ...], result: tuple[int, ...], rng: np.random.Generator
) -> Array | None:
    """Return, for every element of an input, an element of the result that depends on it; None if unknown."""
    size, total = int(np.prod(shape)), int(np.prod(result))
    if size == 0 or total == 0:
        return None
    if size == 1:
        return rng.integers(0, total, 1)
    if size == total:
        return np.arange(size)
    try:
        spread = np.broadcast_to(np.arange(size).reshape(shape), result)
    except ValueError:
        return None
    return np.asarray(np.unique(spread, return_index=True)[1])


def _solved(residual: _Residual, start: Array) -> tuple[Array, Array]:
    """Return the points of smallest residual, and a mask of the elements where it is far below that of the start.

    Secant method from the best of several points.  Once a root is bracketed, it stays within the bracket and bisects
    in every third step; where it left the domain, it goes halfway back.
    """

    def size(r: Array) -> Array:
        return np.where(np.isnan(r), np.inf, np.abs(r))

    first = residual(start)
    best, value = start.copy(), first
    other, beside, outside = best, value, np.full(start.shape, np.nan)
    # The best points with a residual below and above 0.
    ends = [np.where(first * sign >= 0, start, np.nan) for sign in (-1, 1)]
    heights = [np.where(first * sign >= 0, first, np.nan) for sign in (-1, 1)]
    with np.errstate(all="ignore"):
        for step in range(len(_STARTS) + _STEPS):
            if step < len(_STARTS):
                tried = np.full(start.shape, _STARTS[step])
            else:
                low, high = np.minimum(*ends), np.maximum(*ends)
                tried = best - value * (best - other) / (value - beside)
                tried = np.where(np.isnan(outside), tried, (best + outside) / 2)
                halves = (low + high) / 2
                beyond = np.isfinite(halves) & ~((tried > low) & (tried < high))
                tried = np.where(beyond | (np.isfinite(halves) & (step % 3 == 0)), halves, tried)
                tried = np.where(np.isfinite(tried) & (np.abs(tried) < 1e6), tried, best)
            r = residual(tried)
            for k, sign in enumerate((-1, 1)):
                nearer = (r * sign >= 0) & ~(np.abs(r) >= np.abs(heights[k]))
                ends[k] = np.where(nearer, tried, ends[k])
                heights[k] = np.where(nearer, r, heights[k])
            closer = size(r) < size(value)
            new = (tried != best) & np.isfinite(r)
            other = np.where(closer, best, np.where(new, tried, other))
            beside = np.where(closer, value, np.where(new, r, beside))
            best, value = np.where(closer, tried, best), np.where(closer, r, value)
            outside = np.where(np.isfinite(r), np.nan, tried)
        return best, (size(value) <= 0.02 * size(first)) & np.isfinite(first)
