"""Large reductions to few elements in two phases, so that all cores take part.

The cores share what is kept, not what is reduced: a sum over all of a tensor would run on one of them.  Where little is
kept, the reduced elements are divided into parts of equal length.  The first phase reduces every part, the second one
their results, which go through a workspace.  What does not fill all parts evenly, fewer elements than there are parts,
is a short part of its own, and joined last::

    x -> Slice, Reshape [parts, length] -> Reduce -> [parts] -> Reduce -+
    x -> Slice [rest] ------------------> Reduce -----------------------+-> Add -> result

A sum that needs an earlier divided reduction of the same rows, as in softmax and in norms, is made of every part in the
same phase where there is a rule for that (:mod:`autofuse.implgraph.division.online_parts`).  Long running sums are
divided alike (:mod:`autofuse.implgraph.division.split_scans`).

A part without elements has the neutral value, so that this holds for every size.  No core adds to what another one
has: the order follows from the parts and the tiles, and the same call gives the same bits.

What might be worth it is proposed (:mod:`autofuse.implgraph.division.worth`).  Where all sizes are known, the scheduler
compares the forms; where they are not, all are in the kernel, and the host takes the cheapest one for the sizes of a
call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autofuse.implgraph.division.online_parts import (
    Follower,
    Half,
    Joiner,
    axes_of,
    follower_of,
    needed,
)
from autofuse.implgraph.division.split_scans import divided_scan
from autofuse.implgraph.division.worth import (
    GAIN,
    LINE,
    ROW,
    Sizes,
    Worth,
    blocks_of,
    proposals,
)
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import (
    ONE,
    ZERO,
    Expr,
    ExprError,
    FloorDiv,
    Mod,
    const,
    divide_exact,
    product,
)
from autofuse.implgraph.expr.remainders import tight_bounds
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.fusion import AttrValue, FusionGraph, FusionNode, Operand, Tensor
from autofuse.implgraph.ops.registry import find_call, lookup
from autofuse.implgraph.ops.rows.reductions import JOIN, REDUCES
from autofuse.targets import TargetSpec

__all__ = ["flattened", "split_forms", "split_reductions"]

_SCAN = "CumSum"
#: A symbol without a hint counts as that where it says how much is kept, and how much is reduced.
FEW, MANY = 1024, 1 << 20


def split_reductions(
    graph: FusionGraph, target: TargetSpec, *, symbolic: bool = False, gain: float = GAIN
) -> FusionGraph:
    """The graph with large reductions and long running sums in two phases; the graph itself if there are none.

    Args:
        graph: without compositions.
        target: the chip, which says how many cores there are and what a barrier costs.
        symbolic: also reductions of which it depends on symbols whether they are large.  These symbols then have
            hints that say so, which templates are ranked by.
        gain: how many times as long one phase has to take as two.
    """
    return _divided(_Splitter(graph, target, Worth(target), symbolic, gain))


def split_forms(graph: FusionGraph, target: TargetSpec) -> list[FusionGraph]:
    """The graph as it is, or with what is certainly worth it divided, and what else may be worth it; all different.

    Args:
        graph: without compositions.
        target: the chip.
    """
    if not any(n.op in REDUCES or n.op == _SCAN for n in graph.nodes):
        return [graph]
    worth = Worth(target)
    found: list[FusionGraph] = []
    # What is not worth it for the smallest gain is not for the others.
    for symbolic, gain in reversed(proposals(symbolic=bool(graph.symbols))):
        made = _divided(_Splitter(graph, target, worth, symbolic, gain))
        if made not in found:
            found.insert(0, made)
        if made is graph:
            break
    return found


def _divided(made: _Splitter) -> FusionGraph:
    graph = made.graph
    for n in graph.nodes:
        made.add(n)
    if not made.divided:
        return graph
    symbols = tuple(replace(s, hint=made.hints.get(s.name, s.hint)) for s in graph.symbols)
    # What lay between a sum and the reductions that it follows may have no other users.
    nodes = tuple(needed(made.nodes, [o.tensor for o in graph.outputs]))
    used = {*graph.inputs, *(y for n in nodes for y in n.outputs)}
    tensors = {name: t for name, t in made.tensors.items() if name in used}
    return replace(graph, symbols=symbols, nodes=nodes, tensors=tensors)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Division of a reduction: axis ``run`` of ``shape`` into ``parts``; ``gone`` are the reduced axes.

    ``whole``: results have the shape of the operand, as running sums do.
    """

    shape: tuple[Expr, ...]
    gone: tuple[int, ...]
    run: int
    parts: int
    whole: bool = False

    @property
    def rest(self) -> Expr:
        """The length of the short part."""
        size = self.shape[self.run]
        # The sums of parts are put together again: all lengths then add up to the size as they are written.
        return (
            size - FloorDiv(size, self.parts) * self.parts if self.whole else Mod(size, self.parts)
        )

    def halves(self) -> tuple[Half, Half | None]:
        """The parts of equal length, and the short one unless it is known to be empty."""
        shape, run, rest = self.shape, self.run, self.rest
        each = FloorDiv(shape[run], self.parts)
        others = product(shape[d] for d in self.gone if d != run)
        inner = tuple(run + 1 if d == run else d + (d > run) for d in self.gone)
        split = (*shape[:run], const(self.parts), each, *shape[run + 1 :])
        main = Half((self, "main"), split, inner, run, each * others)
        if rest == 0:
            return main, None
        short = (*shape[:run], rest, *shape[run + 1 :])
        return main, Half((self, "rest"), short, self.gone, -1, rest * others)


@dataclass(frozen=True, slots=True)
class _Division:
    """A reduction that is divided: its plan, and what the parts and the short one come to; empty if there is none."""

    plan: _Plan
    first: str
    tail: str


def _is_elementwise(n: FusionNode) -> bool:
    return lookup(n.op).compute_type == "elewise"


class _Splitter:
    """The new graph under construction.

    Args:
        graph: as for :func:`split_reductions`.
        target: as there.
        worth: says what is worth it on the chip.
        symbolic: as there.
        gain: as there.
    """

    def __init__(
        self,
        graph: FusionGraph,
        target: TargetSpec,
        worth: Worth,
        symbolic: bool,
        gain: float,
    ) -> None:
        self._worth = worth
        self.graph, self.target, self.symbolic, self.gain = graph, target, symbolic, gain
        self.tensors: dict[str, Tensor] = dict(graph.tensors)
        self.nodes: list[FusionNode] = []
        self.ranges = graph.symbol_ranges()
        #: Typical values of the symbols on which it depends what is large.
        self.hints: dict[str, int] = {}
        self._taken = {n.name for n in graph.nodes} | set(graph.tensors)
        self._number: dict[str, int] = {}
        self._makers = {y: n for n in graph.nodes for y in n.outputs}
        self._users: dict[str, list[FusionNode]] = {}
        for n in graph.nodes:
            for x in dict.fromkeys(i for i in n.inputs if isinstance(i, str)):
                self._users.setdefault(x, []).append(n)
        #: The parts and the rest of a tensor, for all reductions that divide it alike.
        self._divided: dict[tuple[str, _Plan], tuple[str, str]] = {}
        #: The reductions that are divided, by their results.
        self.divisions: dict[str, _Division] = {}
        self._joiner = Joiner(self)
        #: Whether anything is.
        self.divided = False
        self._outputs = {o.tensor for o in graph.outputs}
        #: Tensors that are certainly for others than reductions along axes.
        self._for_others: set[tuple[str, tuple[int, ...]]] = set()

    def add(self, n: FusionNode) -> None:
        """A node of the graph, or what replaces it."""
        x = n.inputs[0] if n.inputs else None
        if n.op == _SCAN and isinstance(x, str):
            self._scan(n, x)
            return
        if n.op not in REDUCES or not isinstance(x, str):
            self.nodes.append(n)
            return
        follower = follower_of(n, self.graph.nodes, self.tensors) if self.divisions else None
        plan = None if follower is None else self._common(follower)
        if plan is None:
            plan, follower = self._plan(n, x), None
        if plan is None:
            self.nodes.append(n)
        else:
            self._split(n, x, plan, follower)

    def _common(self, follower: Follower) -> _Plan | None:
        """Return the division of the reductions that a reduction follows; None if they are undivided or differ."""
        found = [self.divisions.get(c.reduction) for c in follower.rule.centres]
        plans = {None if d is None else d.plan for d in found}
        return plans.pop() if len(plans) == 1 else None

    # what to divide ---------------------------------------------------------------------------
    def _plan(self, n: FusionNode, x: str) -> _Plan | None:
        """Return the best division of a reduction; None if it stays whole."""
        own = self.tensors[x].shape
        axes = axes_of(n, len(own))
        return self._best(x, axes, ROW)

    def _has_others(self, x: str, axes: tuple[int, ...]) -> bool:
        """Return True if a tensor, or one linked to it element by element, has other users than these reductions.

        Args:
            x: the tensor.
            axes: of the reductions.
        """
        shape = self.tensors[x].shape
        chain, todo = {x}, deque([x])
        others: list[FusionNode] = []
        while todo:
            y = todo.popleft()
            users = self._users.get(y, ())
            # A reduction that takes other axes of the operand cannot be in the same group either.
            mine = [u for u in users if u.op not in REDUCES or axes_of(u, len(shape)) != axes]
            # What is certain ends the search, or each reduction of a long graph would go through all of it.
            apart = any(all(self.tensors[z].shape != shape for z in u.outputs) for u in mine)
            if y in self._outputs or (y, axes) in self._for_others or apart:
                self._for_others.add((x, axes))
                return True
            others += mine
            maker = self._makers.get(y)
            near = [] if maker is None or maker.op in REDUCES else list(maker.inputs)
            # What is made of it may be for such reductions alone, as squares are beside a sum.
            near += [z for u in users if _is_elementwise(u) for z in u.outputs]
            for i in near:
                if isinstance(i, str) and i not in chain and self.tensors[i].shape == shape:
                    chain.add(i)
                    todo.append(i)
        return any(chain.isdisjoint(u.outputs) for u in others)

    def _best(
        self,
        x: str,
        axes: tuple[int, ...],
        row: int,
        *,
        sums: bool = False,
    ) -> _Plan | None:
        """Return the best division of ``axes`` of a tensor; None if it stays whole.

        Args:
            x: the tensor.
            axes: the dimensions that are reduced or summed along.
            row: neighbours that are kept and go to the same core.
            sums: for running sums.
        """
        own = self.tensors[x].shape
        if not self.symbolic and not all(s.is_const for s in own):
            return None
        shape, gone = flattened(own, axes)
        found: list[tuple[float, _Plan]] = []
        for run in gone:
            size = self.tensors[x].dtype.itemsize
            sizes = self._sizes(shape, gone, run, size, row)
            if sizes is None:
                continue
            sizes = replace(sizes, sums=sums)
            if self._worth.hopeless(sizes, self.gain):
                continue
            # Others are looked for in all of the graph: only where it matters.
            sizes = replace(sizes, again=not sums and self._has_others(x, axes))
            parts = self._worth.parts(sizes, shape, gone, run)
            cost = self._worth.less(sizes, parts, self.gain)
            if cost is not None:
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
        self,
        shape: Sequence[Expr],
        gone: Sequence[int],
        run: int,
        itemsize: int,
        neighbours: int,
    ) -> Sizes | None:
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
        row = 1 if last in gone else min(values[last], neighbours)
        blocks = product(v for d, v in enumerate(values) if d not in gone and d != last).value
        blocks *= 1 if last in gone else blocks_of(values[last], neighbours)
        others = product(values[d] for d in gone if d != run).value
        return Sizes(values[run], blocks, others * row * itemsize, row * itemsize, again=False)

    def _scan(self, n: FusionNode, x: str) -> None:
        """A running sum, or the nodes that replace it."""
        rank = len(self.tensors[x].shape)
        named = n.attrs["axis"]
        assert isinstance(named, int)
        # The totals need a reduction of the type, which adds up as the running sum does.
        dtype = self.tensors[x].dtype
        call = find_call("ReduceSum", self.target.arch)
        native = call is not None and dtype.name in call.dtypes
        plan = None
        if native:
            axes = (named % rank,)
            plan = self._best(x, axes, LINE, sums=True)
        if plan is not None:
            plan = _Plan(plan.shape, plan.gone, plan.run, plan.parts, whole=True)
            # An output that overwrites an input is written by one group, and not in pieces.
            pieces = plan.rest != 0 and any(o.inout for o in self.graph.outputs)
            if pieces or tight_bounds(plan.rest, self.ranges)[0] < 0:
                plan = None
        if plan is None:
            self.nodes.append(n)
            return
        y = divided_scan(self, n, x, plan.shape, *plan.halves())
        self.divided = True
        attrs: dict[str, AttrValue] = {"shape": self.tensors[n.outputs[0]].shape}
        self.nodes.append(FusionNode(n.name, "Reshape", (y,), n.outputs, attrs, n.origin))

    # how to divide it -------------------------------------------------------------------------
    def _split(self, n: FusionNode, x: str, plan: _Plan, follower: Follower | None) -> None:
        """The nodes that replace a reduction."""
        self.divided = True
        result = self.tensors[n.outputs[0]]
        main, short = plan.halves()
        kept = [s for d, s in enumerate(plan.shape) if d not in plan.gone]
        first = self._total(n, x, main, follower)
        place = sum(d not in main.gone for d in range(main.lined))
        joined = self._joined(n, first, main, follower)
        whole = self._step(n, "whole", n.op, joined, kept, axes=(place,))
        tail = ""
        if short is not None:
            tail = self._total(n, x, short, follower)
            operands = (whole, self._joined(n, tail, short, follower))
            whole = self.put(n, "joined", JOIN[n.op], operands, kept, result.dtype, {})
        self.divisions[n.outputs[0]] = _Division(plan, first, tail)
        attrs: dict[str, AttrValue] = {"shape": result.shape}
        self.nodes.append(FusionNode(n.name, "Reshape", (whole,), n.outputs, attrs, n.origin))

    def _total(self, n: FusionNode, x: str, half: Half, follower: Follower | None) -> str:
        """Return the result of the reduction over one half."""
        if follower is not None:
            x = self._joiner.summed(n, follower, half)
        y = x if follower is not None else self.half_of(n, x, half)
        dims = half.results(half.full)
        if all(half.full[d] == 1 for d in half.gone):
            return self._step(n, "rest", "Reshape", y, dims, shape=dims)
        what = "rest" if half.lined < 0 else "partial"
        return self._step(n, what, n.op, y, dims, axes=half.gone)

    def _joined(self, n: FusionNode, total: str, half: Half, follower: Follower | None) -> str:
        """Return ``total`` moved to the centre of the whole row; unchanged without a follower."""
        return total if follower is None else self._joiner.joined(n, follower, half, total)

    def outlives(self, count: Expr) -> bool:
        """Return True if an output may have elements where ``count`` is 0."""
        shapes = (self.tensors[o.tensor].shape for o in self.graph.outputs)
        return any(divide_exact(product(s), count) is None for s in shapes)

    def half_of(self, n: FusionNode, x: str, half: Half) -> str:
        """The part of a tensor with the shape of what is reduced."""
        plan = half.key[0]
        assert isinstance(plan, _Plan)
        return self._divide(n, x, plan)[half.lined < 0]

    def reduced_half(self, reduction: str, half: Half) -> str:
        """The result that an earlier reduction, given by its tensor, has of a half."""
        division = self.divisions[reduction]
        return division.tail if half.lined < 0 else division.first

    def _divide(self, n: FusionNode, x: str, plan: _Plan) -> tuple[str, str]:
        """The parts of a tensor, and the short one; empty if there cannot be one."""
        known = self._divided.get((x, plan))
        if known is not None:
            return known
        shape, run, parts = plan.shape, plan.run, plan.parts
        each, rest = FloorDiv(shape[run], parts), plan.rest
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
        """A node with one operand, whose type it keeps; the name of its result."""
        return self.put(n, what, op, (source,), dims, self.tensors[source].dtype, attrs)

    def put(
        self,
        n: FusionNode,
        what: str,
        op: str,
        operands: Sequence[Operand],
        dims: Sequence[Expr],
        dtype: DType,
        attrs: Mapping[str, AttrValue],
    ) -> str:
        """A new node for what ``n`` does; the name of its result."""
        name = self._named(n, what)
        self.tensors[name] = Tensor(name, dtype, tuple(dims), origin=n.origin)
        self.nodes.append(FusionNode(name, op, tuple(operands), (name,), dict(attrs), n.origin))
        return name

    def _named(self, n: FusionNode, what: str) -> str:
        stem = name = f"{n.name}_{what}"
        while name in self._taken:
            self._number[stem] = self._number.get(stem, 1) + 1
            name = f"{stem}_{self._number[stem]}"
        self._taken.add(name)
        return name


def flattened(
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
