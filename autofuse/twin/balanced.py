"""Inputs for which decisions are close: the operands of a comparison are equal or nearly so.

With random numbers a sum of two hundred terms is far from the constant that it is compared with, and an integer is
never the one that a mask asks for: an error in what is compared, or in the branch that is not taken, does not show.
For every decision one input is solved for, element by element, so that the operands agree; then it is moved a little
to either side.  Nothing is taken on trust: an element is kept as it was where the operands did not come closer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.implgraph.fusion import Constant, FusionGraph, FusionNode, GraphOutput
from autofuse.twin.data import random_inputs
from autofuse.twin.oracle import evaluate, ulp_of

__all__ = ["balanced_inputs"]

Array: TypeAlias = npt.NDArray[Any]
_Residual: TypeAlias = Callable[[Array], Array]

#: Decisions that are looked at, inputs that are tried for each, steps of the search.
_DECISIONS, _TRIES, _STEPS = 16, 4, 8
_STARTS = (0.0, 1.0, -1.0, 2.0)


def balanced_inputs(
    graph: FusionGraph, symbols: Mapping[str, int], seed: int
) -> dict[str, Array] | None:
    """Random inputs, some of them moved to where comparisons change their result.

    Args:
        graph: whose inputs.
        symbols: a value per symbol.
        seed: of the numbers.  For an input of one element, seeds take turns between equal operands, a difference
            to either side, and the input as it was; larger inputs have all of them.

    Returns:
        As :func:`~autofuse.twin.data.random_inputs`; None if no decision could be brought close.
    """
    inputs = random_inputs(graph, symbols, seed)
    rng = np.random.Generator(np.random.SFC64([seed, 0xBA1A]))
    moved: set[str] = set()
    for node in _decisions(graph)[:_DECISIONS]:
        part = _up_to(graph, node)
        names = [n for n in _sources(part) if n not in moved and inputs[n].dtype.kind in "fiuV"]
        order = sorted(rng.permutation(len(names)), key=lambda i: -inputs[names[i]].size)
        for name in [names[i] for i in order][:_TRIES]:
            if _balance(part, node, symbols, inputs, name, rng, seed):
                moved.add(name)
                break
    return inputs if moved else None


def _decisions(graph: FusionGraph) -> list[FusionNode]:
    """Nodes that make truth values of numbers."""
    return [
        n
        for n in graph.nodes
        if graph.tensors[n.outputs[0]].dtype.kind == "b"
        and any(graph.tensors[x].dtype.kind in "fiu" for x in n.inputs if isinstance(x, str))
    ]


def _up_to(graph: FusionGraph, node: FusionNode) -> FusionGraph:
    """The graph that makes the operands of the node."""
    wanted = {x for x in node.inputs if isinstance(x, str)}
    operands = sorted(wanted)
    nodes: list[FusionNode] = []
    for n in reversed(graph.nodes):
        if wanted & set(n.outputs):
            nodes.append(n)
            wanted |= {x for x in n.inputs if isinstance(x, str)}
    outputs = tuple(GraphOutput(x, x) for x in operands)
    return replace(graph, nodes=tuple(reversed(nodes)), outputs=outputs)


def _sources(part: FusionGraph) -> Iterator[str]:
    used = {x for n in part.nodes for x in n.inputs} | {o.tensor for o in part.outputs}
    return (x for x in part.inputs if x in used)


def _balance(
    part: FusionGraph,
    node: FusionNode,
    symbols: Mapping[str, int],
    inputs: dict[str, Array],
    name: str,
    rng: np.random.Generator,
    seed: int,
) -> bool:
    """Move one input; False, and nothing is changed, if that brings the operands nowhere closer."""
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
    # Less than most numbers, so that one term more or less in a sum turns it; more than they are rounded.
    step = np.exp2(-rng.integers(2, 9, x.size))
    if not integer:
        step = np.maximum(step, 16 * ulp_of(root, part.tensors[name].dtype))
    # Equal, above, below, and as it was.
    turn = rng.integers(0, 4, x.size) if x.size > 1 else np.full(1, seed % 4)
    near = root + np.select([turn == 1, turn == 2], [1.0, -1.0]) * (1.0 if integer else step)
    values = np.where(better & (turn < 3), near, start)
    if integer:
        limits = np.iinfo(x.dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    # In place: a strided input stays the view that it is.
    x[...] = values.astype(x.dtype).reshape(x.shape)
    return True


def _places(
    shape: tuple[int, ...], result: tuple[int, ...], rng: np.random.Generator
) -> Array | None:
    """For every element of an input a place in the result that depends on it; None if that is not known."""
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
    """Where the residual is smallest, and at which elements that is much closer than at the start."""

    def size(r: Array) -> Array:
        return np.where(np.isnan(r), np.inf, np.abs(r))

    first = residual(start)
    best, least = start.copy(), size(first)
    at, value = start, first
    for guess in _STARTS:
        tried = np.full(start.shape, guess)
        r = residual(tried)
        closer = size(r) < least
        best, least = np.where(closer, tried, best), np.where(closer, size(r), least)
        at, value = tried, r
    previous, before = start, first
    with np.errstate(all="ignore"):
        for _ in range(_STEPS):
            slope = (value - before) / (at - previous)
            tried = at - value / slope
            tried = np.where(np.isfinite(tried) & (np.abs(tried) < 1e6), tried, best)
            previous, before = at, value
            at, value = tried, residual(tried)
            closer = size(value) < least
            best = np.where(closer, at, best)
            least = np.where(closer, size(value), least)
        return best, (least <= 0.02 * size(first)) & np.isfinite(first)
