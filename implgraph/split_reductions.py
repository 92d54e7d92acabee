"""Large reductions to few elements in two phases, so that all cores take part.

The cores share what is kept, not what is reduced: a sum over all of a tensor would run on one of them.  Where little is
kept, the reduced elements are divided into parts of equal length.  The first phase reduces every part, the second one
their results, which go through a workspace.  What does not fill all parts evenly, fewer elements than there are parts,
is a short part of its own, and joined last::

    x -> Slice, Reshape [parts, length] -> Reduce -> [parts] -> Reduce -+
    x -> Slice [rest] ------------------> Reduce -----------------------+-> Add -> result

A part without elements has the neutral value, so that this holds for every size.  No core adds to what another one
has: the order follows from the parts and the tiles, and the same call gives the same bits.

Where all sizes are known, it is decided here whether that is worth it.  Where they are not, both forms are in the
kernel, and the host takes the cheaper one for the sizes of a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from autofuse.implgraph.expr import (
    ONE,
    ZERO,
    Expr,
    ExprError,
    FloorDiv,
    Mod,
    bounds,
    const,
    product,
)
from autofuse.implgraph.fusion import AttrValue, FusionGraph, FusionNode, Tensor
from autofuse.implgraph.reduce_rows import JOIN, REDUCES, reduced_axes
from autofuse.targets import TargetSpec

__all__ = ["split_reductions"]

#: Elements of a row that a DMA command moves at a good rate: neighbours that are kept are shared in blocks of them.
ROW = 128
#: Parts per core at most: more of them share the work more evenly, and are more to reduce in the second phase.
ROUNDS = 4
#: A symbol without a hint counts as that where it says how much is kept, and how much is reduced.
FEW, MANY = 1024, 1 << 20
#: What is gained at least: two phases take at most two thirds of the time of one.
GAIN = 1.5


def split_reductions(
    graph: FusionGraph, target: TargetSpec, *, symbolic: bool = False
) -> FusionGraph:
    """The graph with large reductions in two phases; the graph itself if there are none.

    Args:
        graph: without compositions.
        target: the chip, which says how many cores there are and what a barrier costs.
        symbolic: also reductions of which it depends on symbols whether they are large.  These symbols then have
            hints that say so, which templates are ranked by.
    """
    made = _Splitter(graph, target, symbolic)
    for n in graph.nodes:
        made.add(n)
    if len(made.nodes) == len(graph.nodes):
        return graph
    symbols = tuple(replace(s, hint=made.hints.get(s.name, s.hint)) for s in graph.symbols)
    return replace(graph, symbols=symbols, nodes=tuple(made.nodes), tensors=made.tensors)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """A reduction with known sizes, or typical ones.

    Attributes:
        length: elements of the axis that is to be divided.
        blocks: what the cores share without parts: elements that are kept, in blocks of ROW neighbours.
        block: bytes of such a block that are reduced, per element of the axis.
        kept: bytes of the results of a block.
        again: the operand is read by others too, which one group can serve only without a short part.
    """

    length: int
    blocks: int
    block: int
    kept: int
    again: bool

    def whole(self, target: TargetSpec) -> float:
        """Modelled cycles of the busiest core in one phase."""
        rounds = _ceil(self.blocks, target.aiv_cores)
        return self.length * self.block * rounds / _rate(self.blocks, target)

    def parted(self, parts: int, target: TargetSpec) -> float:
        """The same in two phases."""
        each, rest = divmod(self.length, parts)
        cores = target.aiv_cores
        rounds, alone = _ceil(parts * self.blocks, cores), _ceil(self.blocks, cores)
        cycles = target.sync_all + (each * self.block + self.kept) * rounds / target.load_rate_all
        left, groups = parts * self.kept, 2
        if rest:
            left, groups = left + rest * self.block + 2 * self.kept, 3
        cycles += left * alone / _rate(self.blocks, target)
        cycles += groups * (target.load_head + target.store_head)
        if rest and self.again:
            cycles += self.length * self.block * self.blocks / cores / target.load_rate_all
        return cycles


def _rate(blocks: int, target: TargetSpec) -> float:
    """Bytes per cycle that a core reads: with few at work each has more."""
    return min(
        target.load_rate, target.load_rate_all * target.aiv_cores / min(blocks, target.aiv_cores)
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to divide a reduction: axis ``run`` of ``shape`` into ``parts``; ``gone`` are the reduced axes."""

    shape: tuple[Expr, ...]
    gone: tuple[int, ...]
    run: int
    parts: int


class _Splitter:
    """The new graph under construction."""

    def __init__(self, graph: FusionGraph, target: TargetSpec, symbolic: bool) -> None:
        self.graph, self.target, self.symbolic = graph, target, symbolic
        self.tensors: dict[str, Tensor] = dict(graph.tensors)
        self.nodes: list[FusionNode] = []
        self.ranges = graph.symbol_ranges()
        #: Typical values of the symbols on which it depends what is large.
        self.hints: dict[str, int] = {}
        self._taken = {n.name for n in graph.nodes} | set(graph.tensors)
        self._users: dict[str, list[FusionNode]] = {}
        for n in graph.nodes:
            for x in dict.fromkeys(i for i in n.inputs if isinstance(i, str)):
                self._users.setdefault(x, []).append(n)
        #: The parts and the rest of a tensor, for all reductions that divide it alike.
        self._divided: dict[tuple[str, _Plan], tuple[str, str]] = {}

    def add(self, n: FusionNode) -> None:
        """A node of the graph, or what replaces it."""
        x = n.inputs[0] if n.inputs else None
        plan = self._plan(n, x) if n.op in REDUCES and isinstance(x, str) else None
        if plan is None:
            self.nodes.append(n)
            return
        assert isinstance(x, str)
        self._split(n, x, plan)

    # what to divide ---------------------------------------------------------------------------
    def _plan(self, n: FusionNode, x: str) -> _Plan | None:
        """How to divide a reduction; None if it stays."""
        own = self.tensors[x].shape
        if not self.symbolic and not all(s.is_const for s in own):
            return None
        axes = _axes(n, len(own))
        shape, gone = _flattened(own, axes)
        # A reduction that takes other axes of the operand cannot be in the same group either.
        again = any(u.op not in REDUCES or _axes(u, len(own)) != axes for u in self._users[x])
        found: list[tuple[float, _Plan]] = []
        for run in gone:
            sizes = self._sizes(shape, gone, run, self.tensors[x].dtype.itemsize, again)
            if sizes is None:
                continue
            parts = self._parts(shape, gone, run, sizes)
            cost = sizes.parted(parts, self.target) if parts else 0.0
            if parts and sizes.whole(self.target) > GAIN * cost:
                found.append((cost, _Plan(shape, gone, run, parts)))
        if not found:
            return None
        typical = self._typical(shape, gone)
        for s in own:
            self.hints.update((name, typical[name]) for name in s.symbols())
        return min(found, key=lambda f: f[0])[1]

    def _typical(self, shape: Sequence[Expr], gone: Sequence[int]) -> dict[str, int]:
        """A value for every symbol: its hint, or as if little were kept of much."""
        kept = {s for d, e in enumerate(shape) if d not in gone for s in e.symbols()}
        return {
            s.name: s.hint
            if s.hint is not None
            else max(s.min, min(s.max, FEW if s.name in kept else MANY))
            for s in self.graph.symbols
        }

    def _sizes(
        self, shape: Sequence[Expr], gone: Sequence[int], run: int, itemsize: int, again: bool
    ) -> _Sizes | None:
        """Sizes for the typical values of symbols; None where nothing is left, or a size is not one."""
        typical = self._typical(shape, gone)
        try:
            values = [e.evaluate(typical) for e in shape]
            if any(bounds(e, self.ranges)[0] < 0 for e in shape):
                return None
        except ExprError:
            return None  # a division by zero, for a size that nobody may ask for
        if product(values) == 0:
            return None
        last = len(shape) - 1
        row = 1 if last in gone else min(values[last], ROW)
        blocks = product(v for d, v in enumerate(values) if d not in gone and d != last).value
        blocks *= 1 if last in gone else _ceil(values[last], ROW)
        others = product(values[d] for d in gone if d != run).value
        return _Sizes(values[run], blocks, others * row * itemsize, row * itemsize, again)

    def _parts(self, shape: Sequence[Expr], gone: Sequence[int], run: int, sizes: _Sizes) -> int:
        """The number of parts; 0 if the axis is too short.  Along the innermost one a part is a row of its own."""
        cores = self.target.aiv_cores
        most = min(ROUNDS * cores, sizes.length // (ROW if run == len(shape) - 1 else 2))
        if all(s.is_const for s in shape):
            cost = partial(sizes.parted, target=self.target)
            return min(range(2, most + 1), key=cost, default=0)
        if not all(s.is_const for d, s in enumerate(shape) if d not in gone):
            # A core per part, for every block that there may be.
            return cores if cores <= most else 0

        def share(parts: int) -> Fraction:
            """Of the axis, that the busiest core goes through."""
            return Fraction(_ceil(parts * sizes.blocks, cores), parts)

        return min(range(2, most + 1), key=share, default=0)

    # how to divide it -------------------------------------------------------------------------
    def _split(self, n: FusionNode, x: str, plan: _Plan) -> None:
        """The nodes that replace a reduction."""
        result = self.tensors[n.outputs[0]]
        main, rest = self._divide(n, x, plan)
        gone, run = plan.gone, plan.run
        kept = [s for d, s in enumerate(plan.shape) if d not in gone]
        place = sum(d < run for d in range(len(plan.shape)) if d not in gone)
        inner = tuple(run + 1 if d == run else d + (d > run) for d in gone)
        results = [*kept[:place], const(plan.parts), *kept[place:]]
        first = self._step(n, "partial", n.op, main, results, axes=inner)
        whole = self._step(n, "whole", n.op, first, kept, axes=(place,))
        if rest:
            tail = rest
            if any(self.tensors[rest].shape[d] != 1 for d in gone):
                tail = self._step(n, "rest", n.op, rest, kept, axes=gone)
            elif len(kept) != len(plan.shape):
                tail = self._step(n, "rest", "Reshape", rest, kept, shape=tuple(kept))
            joined = self._named(n, "joined")
            self._emit(n, joined, JOIN[n.op], (whole, tail), kept)
            whole = joined
        attrs: dict[str, AttrValue] = {"shape": result.shape}
        self.nodes.append(FusionNode(n.name, "Reshape", (whole,), n.outputs, attrs, n.origin))

    def _divide(self, n: FusionNode, x: str, plan: _Plan) -> tuple[str, str]:
        """The parts of a tensor, and the short one; empty if there cannot be one."""
        known = self._divided.get((x, plan))
        if known is not None:
            return known
        shape, run, parts = plan.shape, plan.run, plan.parts
        each, rest = FloorDiv(shape[run], parts), Mod(shape[run], parts)
        source = x
        if shape != self.tensors[x].shape:
            source = self._step(n, "rows", "Reshape", x, shape, shape=tuple(shape))
        split = (*shape[:run], const(parts), each, *shape[run + 1 :])
        tail = ""
        if rest != 0:
            tail = self._slice(n, "last", source, plan, each * parts, rest)
            source = self._slice(n, "first", source, plan, ZERO, each * parts)
        main = self._step(n, "parts", "Reshape", source, split, shape=split)
        self._divided[x, plan] = main, tail
        return main, tail

    def _slice(
        self, n: FusionNode, what: str, source: str, plan: _Plan, start: Expr, size: Expr
    ) -> str:
        rank, run = len(plan.shape), plan.run
        dims = (*plan.shape[:run], size, *plan.shape[run + 1 :])
        starts = tuple(start if d == run else ZERO for d in range(rank))
        return self._step(
            n, what, "Slice", source, dims, starts=starts, shape=dims, steps=(1,) * rank
        )

    def _step(
        self,
        n: FusionNode,
        what: str,
        op: str,
        source: str,
        dims: Sequence[Expr],
        **attrs: AttrValue,
    ) -> str:
        """A node with one operand; the name of its result."""
        name = self._named(n, what)
        self._emit(n, name, op, (source,), dims, attrs)
        return name

    def _emit(
        self,
        n: FusionNode,
        name: str,
        op: str,
        operands: tuple[str, ...],
        dims: Sequence[Expr],
        attrs: Mapping[str, AttrValue] | None = None,
    ) -> None:
        dtype = self.tensors[n.outputs[0]].dtype
        self.tensors[name] = Tensor(name, dtype, tuple(dims), origin=n.origin)
        self.nodes.append(FusionNode(name, op, operands, (name,), dict(attrs or {}), n.origin))

    def _named(self, n: FusionNode, what: str) -> str:
        name = f"{n.name}_{what}"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _axes(n: FusionNode, rank: int) -> tuple[int, ...]:
    named = n.attrs.get("axes", ())
    given = tuple(a for a in named if isinstance(a, int)) if isinstance(named, tuple) else ()
    return reduced_axes(given, rank)


def _flattened(
    shape: Sequence[Expr], axes: Sequence[int]
) -> tuple[tuple[Expr, ...], tuple[int, ...]]:
    """The shape with neighbours that are reduced as one axis and without sizes of 1; the reduced axes of it."""
    out: list[Expr] = []
    gone: list[int] = []
    for d, s in enumerate(shape):
        if s == ONE:
            continue
        if d not in axes:
            out.append(s)
        elif gone and gone[-1] == len(out) - 1:
            out[-1] = out[-1] * s
        else:
            gone.append(len(out))
            out.append(s)
    return tuple(out), tuple(gone)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
