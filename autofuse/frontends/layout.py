"""Strides and offset of an input, checked against what kernels can read."""

from __future__ import annotations

from dataclasses import dataclass

from autofuse.base.wording import counted
from autofuse.frontends.builder import MAX_ELEMENTS, GraphBuilder, Shape
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import Expr, ExprError, const

__all__ = ["Layout", "checked_layout", "contiguous"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Strides and offset in elements; None for the default."""

    strides: Shape | None = None
    offset: Expr | None = None


def checked_layout(
    builder: GraphBuilder,
    shape: Shape,
    strides: Shape | None,
    offset: Expr | None,
    pointer: str,
    what: str,
) -> Layout | None:
    """Return the layout of an input, or None with a finding AF1111.

    Args:
        builder: takes the findings and has the ranges of the symbols.
        shape: sizes of the input, already checked.
        strides: one per dimension, or None for contiguous.
        offset: of the first element, or None for 0.
        pointer: JSON pointer of the input.
        what: the input, for messages.
    """
    findings, ranges = builder.findings, builder.ranges()
    if strides is not None and not _good_strides(
        builder, strides, shape, f"{pointer}/strides", what
    ):
        return None
    start = const(0) if offset is None else offset
    try:
        if bounds(start, ranges)[0] < 0:
            text = f"the offset {start} of {what} can be negative"
            findings.add("AF1111", text, f"{pointer}/offset")
            return None
        last = start
        if strides is not None:
            for size, stride in zip(shape, strides, strict=True):
                last = last + (size - 1) * stride
        if bounds(last, ranges)[1] >= MAX_ELEMENTS:
            at = f"{pointer}/offset" if strides is None else f"{pointer}/strides"
            findings.add("AF1111", f"{what} reaches beyond element 2**48", at)
            return None
        if strides == contiguous(shape):
            strides = None
    except ExprError as e:
        findings.add("AF1111", f"the layout of {what} has no bounds: {e}", pointer)
        return None
    return Layout(strides, None if start == 0 else start)


def _good_strides(
    builder: GraphBuilder, strides: Shape, shape: Shape, pointer: str, what: str
) -> bool:
    findings = builder.findings
    if len(strides) != len(shape):
        text = (
            f"{what} has {counted(len(shape), 'dimension')} and {counted(len(strides), 'stride')}"
        )
        findings.add("AF1111", text, pointer, hint="one stride per dimension")
        return False
    for i, s in enumerate(strides):
        try:
            negative = bounds(s, builder.ranges())[0] < 0
        except ExprError:
            negative = True
        if negative:
            text = f"stride {i} of {what} is {s}, which can be negative"
            findings.add("AF1111", text, f"{pointer}/{i}")
            return False
    if shape and shape[-1] != 1 and strides[-1] not in (const(0), const(1)):
        text = f"the innermost stride of {what} is {strides[-1]}"
        hint = "it must be 1, or 0 for a broadcast dimension; otherwise copy the tensor"
        findings.add("AF1111", text, f"{pointer}/{len(strides) - 1}", hint=hint)
        return False
    return True


def contiguous(shape: Shape) -> Shape:
    """Return row-major strides."""
    out: list[Expr] = []
    step = const(1)
    for s in reversed(shape):
        out.append(step)
        step = step * s
    return tuple(reversed(out))
