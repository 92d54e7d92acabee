"""Indexed Loads of single elements as Loads of rows, and calls that take the elements from these."""

from __future__ import annotations

from autofuse.implgraph.expr.expression import ONE, ZERO
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Node, TensorView
from autofuse.implgraph.ir.iteration_space import contiguous_strides

__all__ = ["TAKE", "contiguous", "is_of_rows", "load_of_rows", "take"]

#: The op that takes elements of rows.
TAKE = "TakeRows"


def is_of_rows(n: Node) -> bool:
    """Return True if a Load brings the rows from which elements are taken."""
    return n.op == "Load" and "row" in n.attrs


def load_of_rows(n: Node, data: str) -> Node:
    """Return the Load of the rows in which the elements of an indexed Load lie: it varies only along their axes."""
    y = n.y
    repeats = tuple(ONE if s == ZERO else r for r, s in zip(y.repeats, y.strides, strict=True))
    attrs = {"row": n.attrs["extent"]}
    return replace(
        n, name=f"{n.name}_rows", inputs=(data,), y=replace(y, repeats=repeats), attrs=attrs
    )


def take(n: Node, rows: str, offsets: str) -> Node:
    """Return the node that takes the elements of an indexed Load from its rows."""
    return replace(n, op=TAKE, inputs=(rows, offsets), y=contiguous(n.y), attrs={})


def contiguous(y: TensorView) -> TensorView:
    """Return the view of a result with the shape of an indexed Load, whose strides give the source of its elements."""
    inner = iter(contiguous_strides([r for r in y.repeats if r != 1]))
    strides = tuple(ZERO if r == 1 else next(inner) for r in y.repeats)
    return replace(y, strides=strides, offset=ZERO)
