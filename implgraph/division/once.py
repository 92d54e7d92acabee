"""Tensors that are better computed once and read than computed again for every row they are broadcast over.

A group computes what it needs in the loops of its own axes: a table of sines by position that all heads of all batches
are multiplied by is computed once per head and batch, unless it stays in UB.  A cut computes it in a group of its own,
in front of a barrier.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autofuse.implgraph.division.worth import gather_cycles
from autofuse.implgraph.expr.expression import ExprError, product
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode
from autofuse.implgraph.ops.call_counts import op_calls
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.rewrites.differences import COMPARISONS
from autofuse.targets import TargetSpec

__all__ = ["computed_once"]

#: Calls per vector that are several times as many as those of a sum.
SEVERAL = 4
#: The time saved must be this many times that of a barrier.
GAIN = 2


def computed_once(graph: FusionGraph, target: TargetSpec) -> tuple[str, ...]:
    """Return the tensors whose cut saves more than a barrier costs, at the hints of the symbols; usually none.

    Args:
        graph: a graph without composite ops.
        target: the chip.
    """
    try:
        return _computed_once(graph, target)
    except ExprError:
        return ()  # a size is divided by one that is 0 at the hints


def _computed_once(graph: FusionGraph, target: TargetSpec) -> tuple[str, ...]:
    env = {s.name: s.typical for s in graph.symbols}
    makers = {n.outputs[0]: n for n in graph.nodes}
    repeated: dict[str, int] = {}
    for n in graph.nodes:
        if lookup(n.op).compute_type not in ("elewise", "broadcast"):
            continue
        for x in n.inputs:
            if not isinstance(x, str):
                continue
            t, base = graph.tensors[x], _base(x, makers)
            shape = [s.evaluate(env) for s in t.shape]
            whole = [s.evaluate(env) for s in graph.tensors[n.outputs[0]].shape]
            times = _repeated(shape, whole)
            if times > 1:
                repeated[base] = max(repeated.get(base, 0), times - 1)
    saved = {
        x: times * _cycles(x, graph, makers, env, target) / target.aiv_cores
        for x, times in repeated.items()
    }
    found = [x for x, cycles in saved.items() if cycles > 0]
    worth = sum(saved[x] for x in found) > GAIN * target.sync_all
    return tuple(found) if worth else ()


def _repeated(shape: Sequence[int], whole: Sequence[int]) -> int:
    """Return how often loops compute a tensor again that is repeated along dimensions outside others of its own."""
    padded = [1] * (len(whole) - len(shape)) + list(shape)
    return math.prod(
        max(size, 1)
        for i, (own, size) in enumerate(zip(padded, whole, strict=True))
        if own == 1 and math.prod(padded[i + 1 :]) > 1
    )


def _base(x: str, makers: Mapping[str, FusionNode]) -> str:
    """Return the tensor of which ``x`` is a view."""
    while (n := makers.get(x)) is not None and lookup(n.op).compute_type == "view":
        (x,) = (i for i in n.inputs if isinstance(i, str))
    return x


def _cycles(
    x: str,
    graph: FusionGraph,
    makers: Mapping[str, FusionNode],
    env: Mapping[str, int],
    target: TargetSpec,
) -> float:
    """Return the cycles of one core for what computes a tensor up to reductions, which are computed once anyway.

    Only ops that take several times as long as a sum count, such as those of 64-bit integers, and gathers of single
    elements: the others are as fast as reading their result.
    """
    total = 0.0
    todo, seen = [x], {x}
    while todo:
        tensor = todo.pop()
        n = makers.get(tensor)
        row = None if n is None else lookup(n.op)
        if n is None or row is None or row.compute_type in ("reduce", "scan"):
            continue
        elements = product(graph.tensors[tensor].shape).evaluate(env)
        read = [i for i in n.inputs if isinstance(i, str)]
        if row.compute_type == "gather":
            total += elements * gather_cycles(target) if n.op != "Take" else 0.0
            read = read[1:]  # the data are in GM
        elif rate := target.vector[row.cost].rate32:
            calls = op_calls(n.op, graph.tensors[read[0] if n.op in COMPARISONS else tensor].dtype)
            total += elements * calls / rate if row.special or calls >= SEVERAL else 0.0
        todo += [i for i in dict.fromkeys(read) if i not in seen]
        seen.update(read)
    return total
