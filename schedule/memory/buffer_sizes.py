"""Sizes of the buffers of a memory plan, in bytes, and their comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from autofuse.implgraph.expr.expression import Expr, Max, align_up, product
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.registry import find_call
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.implgraph.ops.scratch import row_bytes
from autofuse.schedule.axes.layout import Layout
from autofuse.schedule.placement.reduce_steps import reduce_tmp
from autofuse.schedule.placement.row_operands import ROWS, row_extents
from autofuse.schedule.placement.scan import SCAN, scan_tmp
from autofuse.targets import Architecture

__all__ = ["granule_tensors", "larger", "scratch_bytes", "weight"]

#: Value of every symbol when the sizes of two buffers are compared.
_SAMPLE = 1000


def granule_tensors(nodes: Iterable[Node], arch: Architecture) -> frozenset[str]:
    """Tensors that meet a call which rounds its length up to whole repeats."""
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
    """Bytes that the calls of a node need beside its operands; None where they need none.

    Args:
        n: the node.
        nodes: those of its template, by name.
        layout: how tensors lie in UB.
        arch: the architecture, which says what the calls are.
    """
    call = find_call(n.op, arch)
    if call is not None and call.tmp is not None:
        return align_up(call.tmp(layout.elements(n.y), n.y.dtype), arch.block_bytes)
    if n.op == "Broadcast":
        return _spread_bytes(n, nodes[n.inputs[0]], layout)
    if n.op in ROWS:
        return _row_bytes(n, nodes[n.inputs[1]], layout)
    if n.op == SCAN:
        return align_up(scan_tmp(n, layout), arch.block_bytes)
    if n.op in REDUCES:
        return align_up(reduce_tmp(n, nodes[n.inputs[0]], layout), arch.block_bytes)
    return None


def _spread_bytes(n: Node, source: Node, layout: Layout) -> Expr | None:
    """A broadcast along the innermost axis first spreads every element to a 32-byte block (Brcb, 8 at a time)."""
    if source.y.vectorized_axis and n.y.vectorized_axis[-1] in source.y.vectorized_axis:
        return None
    return align_up(layout.elements(source.y), 8) * layout.arch.block_bytes


def _row_bytes(n: Node, source: Node, layout: Layout) -> Expr:
    """What a call with an element per row spreads."""
    rows, along = row_extents(n, source, [layout.extent(a) for a in n.y.vectorized_axis])
    return row_bytes(n.y.dtype, product(rows), product(along), layout.arch)


@lru_cache(maxsize=4096)
def weight(nbytes: Expr) -> int:
    """Bytes at a sample point, to compare sizes that are symbolic."""
    return nbytes.evaluate({s: _SAMPLE for s in nbytes.symbols()})


def larger(a: Expr, b: Expr) -> Expr:
    """The larger of two sizes, without a Max where one is seen to be the larger."""
    return a if a is b else _larger(a, b)


@lru_cache(maxsize=4096)
def _larger(a: Expr, b: Expr) -> Expr:
    d = a - b
    if all(c >= 0 for _, c in d.terms):
        return a
    if all(c <= 0 for _, c in d.terms):
        return b
    return Max(a, b)
