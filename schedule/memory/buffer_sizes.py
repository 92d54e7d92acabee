"""Sizes in bytes of the buffers of a memory plan, and their comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from autofuse.implgraph.expr.expression import Expr, Max, align_up
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.registry import find_call
from autofuse.schedule.axes.layout import Layout
from autofuse.schedule.functions import function_of
from autofuse.targets import Architecture

__all__ = ["granule_tensors", "larger", "scratch_bytes", "weight"]

#: Value of every symbol when comparing buffer sizes.
_SAMPLE = 1000


def granule_tensors(nodes: Iterable[Node], arch: Architecture) -> frozenset[str]:
    """Return the tensors used by a call that rounds its length up to whole repeats."""
    out: set[str] = set()
    for n in nodes:
        call = find_call(n.op, arch)
        if call is not None and call.whole_repeats:
            out.add(n.name)
            out.update(n.inputs)
    return frozenset(out)


def scratch_bytes(
    n: Node, nodes: Mapping[str, Node], layout: Layout, arch: Architecture
) -> Expr | None:
    """Return the scratch bytes that the calls of a node need; None if they need none.

    Args:
        n: the node.
        nodes: the nodes of its template, by name.
        layout: layout of tensors in UB.
        arch: the architecture; determines the calls.
    """
    call = find_call(n.op, arch)
    if call is not None and call.tmp is not None:
        return align_up(call.tmp(layout.elements(n.y), n.y.dtype), arch.block_bytes)
    f = function_of(n.op)
    return None if f is None or f.scratch is None else f.scratch(n, nodes, layout)


@lru_cache(maxsize=4096)
def weight(nbytes: Expr) -> int:
    """Return the bytes at a sample point, for comparing symbolic sizes."""
    return nbytes.evaluate({s: _SAMPLE for s in nbytes.symbols()})


def larger(a: Expr, b: Expr) -> Expr:
    """Return the larger of two sizes, without a Max if one is evidently larger."""
    return a if a is b else _larger(a, b)


@lru_cache(maxsize=4096)
def _larger(a: Expr, b: Expr) -> Expr:
    d = a - b
    if all(c >= 0 for _, c in d.terms):
        return a
    if all(c <= 0 for _, c in d.terms):
        return b
    return Max(a, b)
