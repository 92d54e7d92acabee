"""Conditions on sizes beyond symbol ranges: without them an op has no result, or a read is out of bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, product
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph, Tensor, in_labels
from autofuse.implgraph.ops.registry import lookup

__all__ = ["Requirement", "may_overlap", "memory_span", "requirements"]


@frozen
class Requirement:
    """Condition on sizes; the host function rejects a call that violates it.

    Attributes:
        kind: ``empty``: an op has no result for empty operands; ``relation``: sizes do not fit each other.
        value: must be at least ``least``.
        least: 0 or 1.
        text: the error message for a violation.
    """

    kind: Literal["empty", "relation"]
    value: Expr
    least: int
    text: str

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Return True if the condition holds for these sizes."""
        return self.value.evaluate(sizes) >= self.least


def requirements(graph: FusionGraph) -> tuple[Requirement, ...]:
    """Return the conditions that do not follow from the ranges of the symbols; one for each value.

    Raises:
        ExprError: an expression is unbounded.
    """
    ranges = graph.symbol_ranges()
    found = [r for r in _all(graph) if bounds(r.value, ranges)[0] < r.least]
    return tuple({(r.kind, r.value): r for r in reversed(found)}.values())[::-1]


def _all(graph: FusionGraph) -> Iterator[Requirement]:
    for name in graph.inputs:
        yield from _of_strides(graph.tensors[name], graph.symbol_ranges())
    for n in graph.nodes:
        row = lookup(n.op)
        if row.nonempty is None and row.inside is None:
            continue
        shapes = [graph.tensors[x].shape if isinstance(x, str) else () for x in n.inputs]
        for size in row.nonempty(shapes, n.attrs) if row.nonempty is not None else ():
            words = graph.in_words(size)
            article = "an" if n.op[0] in "AEIOU" else "a"
            text = (
                f"{n.label} is {article} {n.op} along a dimension of {words}, which must not be 0"
            )
            yield Requirement("empty", size, 1, text)
        if row.inside is not None:
            told = [in_labels(s, graph.symbols) for s in shapes], in_labels(n.attrs, graph.symbols)
            for (value, _), (_, what) in zip(
                row.inside(shapes, n.attrs), row.inside(*told), strict=True
            ):
                yield Requirement("relation", value, 0, f"{n.label} is a {n.op} that {what}")


def _row(t: Tensor) -> tuple[int, Expr]:
    """Return the first of the trailing dimensions that are contiguous among themselves, and their total size."""
    assert t.strides is not None
    size, first = ONE, len(t.shape)
    for k in reversed(range(len(t.shape))):
        if t.shape[k] != 1 and t.strides[k] != size:
            break
        size, first = size * t.shape[k], k
    return first, size


def _of_strides(t: Tensor, ranges: Mapping[str, tuple[int, int]]) -> Iterator[Requirement]:
    """Yield conditions that keep rows at size-dependent distances from overlapping: one command copies several of them.

    Rows that may go backwards are copied by one command each.
    """
    if t.strides is None:
        return
    for k, (stride, size) in enumerate(zip(t.strides, t.shape, strict=True)):
        if stride == ZERO:
            # It is loaded once, whatever the size: a sum over zero such rows would read out of bounds.
            text = f"dimension {k} of {t.name} has the stride 0, and no elements"
            yield Requirement("empty", size, 1, text)
    first, row = _row(t)
    for k in range(first):
        stride, size = t.strides[k], t.shape[k]
        if stride.symbols() and size != 1 and bounds(stride, ranges)[0] >= 0:
            text = (
                f"the stride {stride} of dimension {k} of {t.name} is less than its rows of {row}"
            )
            yield Requirement("relation", stride - row, 0, text)


def memory_span(t: Tensor) -> Expr:
    """Return the number of elements that the memory of a tensor spans, including its offset and gaps."""
    if t.strides is None:
        span = product(t.shape)
    else:
        span = ONE
        for size, stride in zip(t.shape, t.strides, strict=True):
            span = span + (size - 1) * stride
    return span if t.offset is None else span + t.offset


def may_overlap(t: Tensor, ranges: Mapping[str, tuple[int, int]]) -> bool:
    """Return True if rows of an input overlap for some sizes that :func:`requirements` allow."""
    if t.strides is None:
        return False
    first, row = _row(t)
    return any(
        not t.strides[k].symbols() and t.shape[k] != 1 and bounds(t.strides[k] - row, ranges)[0] < 0
        for k in range(first)
    )
