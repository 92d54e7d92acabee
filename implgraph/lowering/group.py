"""A group of results that are computed together, and its growth."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import Tensor
from autofuse.implgraph.ir.iteration_space import Axes, IterationSpace, stride_runs
from autofuse.implgraph.ir.ordering import execution_order
from autofuse.implgraph.lowering.normalise import INPUT, Program
from autofuse.implgraph.lowering.reach import reachable
from autofuse.implgraph.lowering.walk import SCALAR, BlockedError, Inst, Start, StraddleError, Walk

__all__ = ["Group", "Result", "grown", "settle"]


@frozen
class Result:
    """A tensor that a group stores: as output ``output`` of the graph, or workspace ``workspace`` (else -1)."""

    tensor: int
    shape: tuple[Expr, ...]
    output: int = -1
    workspace: int = -1
    memory: Tensor | None = None
    inout: int = -1
    origin: str = ""

    @property
    def runs(self) -> tuple[tuple[Expr, Expr], ...]:
        """(size, stride) runs of the strided memory that it overwrites; empty for dense memory."""
        t = self.memory
        return () if t is None or t.strides is None else stride_runs(t.shape, t.strides)


@dataclass
class Group:
    """One group: its results, axes and instances."""

    program: Program
    results: list[Result]
    space: IterationSpace
    starts: list[Start]
    walk: Walk
    #: Tensors that it reads from workspaces instead of computing them.
    cuts: frozenset[int]
    #: True for one piece of an output, which nothing joins.
    part: bool = False
    #: True if it computes the pieces of short rows together.
    columns: bool = False
    insts: list[Inst] = field(init=False)

    def __post_init__(self) -> None:
        self.insts = self.walk.insts

    def again(self, cuts: frozenset[int]) -> Group:
        """Return an independent copy of the group with other cuts, none of which its walk reached."""
        space, walk, columns = self.space.copy(), self.walk, self.columns
        results, starts = list(self.results), list(self.starts)
        return Group(self.program, results, space, starts, walk, cuts, self.part, columns)

    def execution_order(self) -> list[int]:
        """Return the instances in execution order; an input is read before it is overwritten."""
        operands = [i.operands for i in self.insts]
        for store, result in zip(self.walk.stores, self.results, strict=True):
            if result.inout >= 0:
                reads = [n for n, inst in enumerate(self.insts) if self._reads(inst, result.inout)]
                operands[store] = [*operands[store], *reads]
        return execution_order(operands, self.walk.stores, [i.kind == SCALAR for i in self.insts])

    def _reads(self, inst: Inst, index: int) -> bool:
        read = inst.places.source if inst.places is not None else inst.tensor
        step = self.program.steps[read]
        return (
            step.kind == INPUT
            and step.index == index
            and (inst.kind == INPUT or (inst.places is not None and read not in self.cuts))
        )


def settle(
    program: Program, space: IterationSpace, starts: Sequence[Start], cuts: Collection[int]
) -> Walk:
    """Walk until a walk makes no new split.

    Raises:
        BlockedError: the axes do not fit, or a result varies neither along all axes nor along all kept ones.
        StraddleError: a piece must be cut.
    """
    while True:
        before = space.splits
        walk = Walk(program, space, starts, cuts)
        if space.splits == before:
            break
    levels = space.levels()
    for s in starts:
        axes = space.flatten(space.resolve(s.axes))
        if set(axes) not in levels or len(set(axes)) < len(axes):
            raise BlockedError(s.tensor)
    return walk


def grown(
    group: Group, more: Sequence[Result], *, make: bool = False
) -> tuple[Group, list[Result]]:
    """Return the group with the results of ``more`` that its axes reach: all at once, or else one by one if they fit.

    Args:
        group: the group; not changed.
        more: results to add.
        make: compute these tensors in the group where it reads them from a workspace.

    Returns:
        The larger group, or the same one, and the remaining results.
    """
    left = list(more)
    progress = True
    while left and progress:
        cuts = group.cuts - {r.tensor for r in left} if make else group.cuts
        space = group.space.copy()
        try:
            walk = settle(group.program, space, group.starts, cuts) if make else group.walk
        except (BlockedError, StraddleError):
            return group, left
        known = reachable(group.program, space, walk)
        reached = [r for r in left if r.tensor in known]
        progress = False
        for some in (reached, *([r] for r in reached if len(reached) > 1)):
            some = [r for r in some if r in left]
            larger = _enlarged(group, space, cuts, known, some) if some else None
            if larger is not None:
                group, progress = larger, True
                left = [r for r in left if r not in some]
    return group, left


def _enlarged(
    group: Group,
    space: IterationSpace,
    cuts: frozenset[int],
    known: dict[int, Axes],
    more: Sequence[Result],
) -> Group | None:
    space = space.copy()
    starts = list(group.starts)
    for x in more:
        runs = tuple(size for size, _ in x.runs)
        starts.append(Start(len(starts), x.tensor, known[x.tensor], x.origin, runs))
    try:
        walk = settle(group.program, space, starts, cuts)
    except (BlockedError, StraddleError):
        return None
    return Group(group.program, [*group.results, *more], space, starts, walk, cuts)
