"""Reductions in UB: one step per run of neighbouring axes.

Every step is [o, r] -> [o] or [o, r, i] -> [o, i].
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from autofuse.base.wording import Wording
from autofuse.implgraph.expr.expression import ONE, ZERO
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.axes.layout import Layout
from autofuse.schedule.axes.rejection import TemplateRejectedError

__all__ = ["reduce_runs", "reduce_steps"]


def reduce_runs(
    axes: Sequence[int], gone: Collection[int], dense: Collection[int], bare: Collection[int] = ()
) -> list[tuple[int, ...]]:
    """Return the runs of the axes in ``gone``: the innermost run first, then the others, outermost first.

    So a run in the middle has as few axes before it as possible.  Neighbours form one run if the inner one is in
    ``dense``, i.e. no padding can separate its elements.  If the innermost run would leave an axis of ``bare``
    innermost, whose rows are not padded, it comes last: several rows of a run in the middle must start at 32-byte
    addresses.
    """
    runs: list[tuple[int, ...]] = []
    for i in reversed(range(len(axes))):
        if axes[i] not in gone:
            continue
        if runs and axes[i + 1] == runs[-1][0] and runs[-1][0] in dense:
            runs[-1] = (axes[i], *runs[-1])
        else:
            runs.append((axes[i],))
    ends = 1 if runs and runs[0][-1] == axes[-1] else 0
    left = axes[: -len(runs[0])] if ends else ()
    several = any(a not in gone for run in runs[1:] for a in axes[: axes.index(run[0])])
    if left and left[-1] in bare and several:
        return [*reversed(runs[1:]), runs[0]]
    return [*runs[:ends], *reversed(runs[ends:])]


def reduce_steps(
    node: Node,
    source: Node,
    layout: Layout,
    gone: Collection[int],
    dense: Collection[int],
    bare: Collection[int] = (),
) -> list[Node]:
    """Return one node per run; none if the source does not vary along the axes ``gone`` in UB.

    The view of ``node`` is that of its result; ``source`` is in UB; ``dense`` and ``bare`` are as in
    :func:`reduce_runs`.

    Raises:
        TemplateRejectedError: padding separates the rows of a step.
    """
    runs = reduce_runs(source.y.vectorized_axis, gone, dense, bare)
    steps: list[Node] = []
    left = set(source.y.vectorized_axis)
    before = source
    views = dict(
        zip(source.y.axis, zip(source.y.repeats, source.y.strides, strict=True), strict=True)
    )
    for k, run in enumerate(runs):
        left -= set(run)
        last = k == len(runs) - 1
        _check_rows(node, before, run, layout)
        y = node.y
        if not last:
            # A partial step varies along all axes of the source except those reduced so far.
            keep = [views[a] if a not in gone or a in left else (ONE, ZERO) for a in y.axis]
            y = replace(y, repeats=tuple(r for r, _ in keep), strides=tuple(s for _, s in keep))
        made = replace(
            node,
            name=node.name if last else f"{node.name}_step{k}",
            inputs=(before.name,),
            y=layout.vectorize(y),
        )
        steps.append(made)
        before = made
    return steps


def _check_rows(node: Node, source: Node, run: Sequence[int], layout: Layout) -> None:
    """Check that [o, r, i] with several o has no padding after r: the call takes contiguous rows."""
    axes = source.y.vectorized_axis
    at = axes.index(run[0])
    if at and run[-1] != axes[-1] and any(layout.padded(a) for a in run):
        raise TemplateRejectedError(
            Wording(
                "{} would reduce {} rows with padding between them", node, layout.extent(run[0])
            )
        )
