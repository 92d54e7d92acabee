"""Broadcasts in UB: one step per run of neighbouring axes, so that every step is [o, 1, i] -> [o, m, i]."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from autofuse.base.wording import Wording, counted
from autofuse.implgraph.expr.expression import ONE, ZERO, product
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Node, TensorView
from autofuse.schedule.axes.layout import Layout
from autofuse.schedule.axes.rejection import TemplateRejectedError

__all__ = ["broadcast_runs", "broadcast_steps"]


def broadcast_runs(want: Sequence[int], have: Collection[int]) -> list[list[int]]:
    """Return the runs of neighbouring new axes, innermost run first."""
    runs: list[list[int]] = []
    for i, a in enumerate(want):
        if a in have:
            continue
        if runs and want[i - 1] == runs[-1][-1]:
            runs[-1].append(a)
        else:
            runs.append([a])
    return runs[::-1]


def broadcast_steps(node: Node, source: Node, layout: Layout) -> list[Node]:
    """Return one node per run of new axes, innermost run first; none if UB already holds the result."""
    have = set(source.y.vectorized_axis)
    runs = broadcast_runs(node.y.vectorized_axis, have)
    steps: list[Node] = []
    name = source.name
    for k, run in enumerate(runs):
        have |= set(run)
        last_step = k == len(runs) - 1
        # Repeats of a partial step: those of the target along the axes reached so far.
        keep = tuple(
            (r, s) if a not in layout.split.vector or a in have else (ONE, ZERO)
            for a, r, s in zip(node.y.axis, node.y.repeats, node.y.strides, strict=True)
        )
        y = replace(node.y, repeats=tuple(r for r, _ in keep), strides=tuple(s for _, s in keep))
        y = layout.vectorize(y)
        _check_rows(node, y, run, layout)
        made = replace(
            node, name=node.name if last_step else f"{node.name}_step{k}", inputs=(name,), y=y
        )
        steps.append(made)
        name = made.name
    return steps


def _check_rows(node: Node, y: TensorView, run: Sequence[int], layout: Layout) -> None:
    """Check that the rows written by a step start at 32-byte addresses."""
    axes = y.vectorized_axis
    first, after = axes.index(run[0]), axes.index(run[-1]) + 1
    outer = product(layout.extent(a) for a in axes[:first])
    inner = product(layout.extent(a) for a in axes[after:])
    mid = product(layout.extent(a) for a in run)
    row = (inner if inner != 1 else mid) * y.dtype.itemsize
    if inner == 1 and outer == 1:
        return
    if axes[-1] in layout.pitches or (
        axes[-1] == layout.split.vector[-1] and layout.in_blocks(row)
    ):
        return
    if axes[-1] == layout.split.vector[-1] and len(layout.split.vector) > 1:
        return  # covered by the condition on the row length of the unpadded variant
    if not layout.in_blocks(row):
        raise TemplateRejectedError(
            Wording(
                "broadcast {} would write rows of {}, which do not start at {}-byte addresses",
                node,
                counted(row, "byte"),
                layout.arch.block_bytes,
            )
        )
