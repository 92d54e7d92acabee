"""Large reductions to few elements in two phases, so that all cores take part.

The cores share the kept dimensions, not the reduced ones: a sum over a whole tensor would run on one core.  Where few
elements are kept, the reduced elements are divided into parts of equal length.  The first phase reduces every part, the
second reduces their results, which go through a workspace.  The remainder, fewer elements than there are parts, is a
short part of its own and joined last::

    x -> Slice, Reshape [parts, length] -> Reduce -> [parts] -> Reduce -+
    x -> Slice [rest] ------------------> Reduce -----------------------+-> Add -> result

A sum that depends on an earlier divided reduction of the same rows, as in softmax and norms, is computed for every part
in the same phase where a rule allows it (:mod:`autofuse.implgraph.division.online_parts`).  Long running sums are
divided the same way (:mod:`autofuse.implgraph.division.split_scans`).

An empty part yields the neutral value, so this works for every size.  No core adds to another core's result: the order
of summation follows from the parts and the tiles, so the same call gives the same bits.

:mod:`autofuse.implgraph.division.worth` proposes the candidates.  Where all sizes are known, the scheduler compares the
forms; otherwise the kernel contains all of them and the host picks the cheapest for the sizes of a call.
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
    gather_cycles,
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
from autofuse.implgraph.ops.rows.reductions import JOIN, PART, REDUCES
from autofuse.targets import TargetSpec

__all__ = ["flattened", "split_forms", "split_reductions"]

_SCAN = "CumSum"
#: Value assumed for a symbol without a hint: as a kept size, and as a reduced size.
FEW, MANY = 1024, 1 << 20


def split_reductions(
    graph: FusionGraph, target: TargetSpec, *, symbolic: bool = False, gain: float = GAIN
) -> FusionGraph:
    """Return the graph with large reductions and long running sums in two phases; ``graph`` itself without any.

    Args:
        graph: a graph without composite ops.
        target: the chip; gives the number of cores and the cost of a barrier.
        symbolic: also divide reductions whose size depends on symbols.  These symbols then get hints for large sizes,
            by which templates are ranked.
        gain: minimum ratio of the time of one phase to that of two.
    """
    return _divided(_Splitter(graph, target, Worth(target), symbolic, gain))


def split_forms(graph: FusionGraph, target: TargetSpec) -> list[FusionGraph]:
    """Return the graph as it is, or with the certain gains divided, and further forms that may pay; all different.

    Args:
        graph: a graph without composite ops.
        target: the chip.
    """
    if not any(n.op in REDUCES or n.op == _SCAN for n in graph.nodes):
        return [graph]
    worth = Worth(target)
    found: list[FusionGraph] = []
    # A division rejected at the smallest gain is rejected at the others.
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
    # Nodes between a sum and the reductions it follows may have no other users.
    nodes = tuple(needed(made.nodes, [o.tensor for o in graph.outputs]))
    used = {*graph.inputs, *(y for n in nodes for y in n.outputs)}
    tensors = {name: t for name, t in made.tensors.items() if name in used}
    return replace(graph, symbols=symbols, nodes=nodes, tensors=tensors)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Division of axis ``run`` of ``shape`` into ``parts``; ``gone`` are the reduced axes.

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
        # Sums of parts are concatenated again: the lengths must add up to the size symbolically.
        return (
            size - FloorDiv(size, self.parts) * self.parts if self.whole else Mod(size, self.parts)
        )

    def halves(self) -> tuple[Half, Half | None]:
        """Return the equal parts, and the short one unless it is known to be empty."""
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
    """A divided reduction: its plan, the results of the equal parts and of the short one, which may be empty."""

    plan: _Plan
    first: str
    tail: str


def _is_elementwise(n: FusionNode) -> bool:
    return lookup(n.op).compute_type == "elewise"


class _Splitter:
    """The new graph under construction.

    Args:
        graph: as for :func:`split_reductions`.
        target: as for :func:`split_reductions`.
        worth: estimator for the chip.
        symbolic: as for :func:`split_reductions`.
        gain: as for :func:`split_reductions`.
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
        #: Typical values of the symbols that decide which reductions are large.
        self.hints: dict[str, int] = {}
        self._taken = {n.name for n in graph.nodes} | set(graph.tensors)
        self._number: dict[str, int] = {}
        self._makers = {y: n for n in graph.nodes for y in n.outputs}
        self._users: dict[str, list[FusionNode]] = {}
        for n in graph.nodes:
            for x in dict.fromkeys(i for i in n.inputs if isinstance(i, str)):
                self._users.setdefault(x, []).append(n)
        #: The parts and the rest of a tensor, shared by all reductions that divide it alike.
        self._divided: dict[tuple[str, _Plan], tuple[str, str]] = {}
        #: Divided reductions, by result.
        self.divisions: dict[str, _Division] = {}
        self._joiner = Joiner(self)
        #: True once anything is divided.
        self.divided = False
        self._outputs = {o.tensor for o in graph.outputs}
        #: Commands of gathers that do not take elements from rows in UB, by node; of known sizes.
        self._gathers = {n.name: c for n in graph.nodes if (c := self._commands(n))}
        #: Tensors known to have users other than reductions along axes.
        self._for_others: set[tuple[str, tuple[int, ...]]] = set()

    def _commands(self, n: FusionNode) -> int:
        """Return the DMA commands of a gather: one for the elements behind each place; 0 for other nodes."""
        if (
            lookup(n.op).compute_type != "gather"
            or n.op == "Take"
            or not isinstance(n.inputs[0], str)
        ):
            return 0
        axis = n.attrs.get("axis", 0)
        data = self.tensors[n.inputs[0]].shape
        assert isinstance(axis, int)
        run = product(data[axis % len(data) + 1 :]).as_int() if n.op == "Gather" else 1
        count = product(self.tensors[n.outputs[0]].shape).as_int()
        return 0 if count is None or run is None else count // max(run, 1)

    def add(self, n: FusionNode) -> None:
        """Add a node of the graph, or its replacement."""
        x = n.inputs[0] if n.inputs else None
        if n.op == _SCAN and isinstance(x, str):
            self._scan(n, x)
            return
        if n.op not in REDUCES or PART in n.attrs or not isinstance(x, str):
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
        """Return the division shared by the reductions that this one follows; None if undivided or different."""
        found = [self.divisions.get(c.reduction) for c in follower.rule.centres]
        plans = {None if d is None else d.plan for d in found}
        return plans.pop() if len(plans) == 1 else None

    # choice of divisions ---------------------------------------------------------------------------
    def _plan(self, n: FusionNode, x: str) -> _Plan | None:
        """Return the best division of a reduction; None if it stays undivided."""
        own = self.tensors[x].shape
        axes = axes_of(n, len(own))
        return self._best(x, axes, ROW)

    def _has_others(self, x: str, axes: tuple[int, ...]) -> bool:
        """Return True if a tensor, or one linked to it element by element, has users other than these reductions.

        Args:
            x: the tensor.
            axes: axes of the reductions.
        """
        shape = self.tensors[x].shape
        chain, todo = {x}, deque([x])
        others: list[FusionNode] = []
        while todo:
            y = todo.popleft()
            users = self._users.get(y, ())
            # A reduction over other axes of the operand cannot join the same group either.
            mine = [u for u in users if u.op not in REDUCES or axes_of(u, len(shape)) != axes]
            # Stop at known tensors, or each reduction of a long graph would traverse all of it.
            apart = any(all(self.tensors[z].shape != shape for z in u.outputs) for u in mine)
            if y in self._outputs or (y, axes) in self._for_others or apart:
                self._for_others.add((x, axes))
                return True
            others += mine
            maker = self._makers.get(y)
            near = [] if maker is None or maker.op in REDUCES else list(maker.inputs)
            # Results computed from it may feed only such reductions, as squares beside a sum do.
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
        """Return the best division of ``axes`` of a tensor; None if it stays undivided.

        Args:
            x: the tensor.
            axes: the reduced dimensions, or those of the running sum.
            row: number of kept neighbours that go to the same core.
            sums: True for running sums.
        """
        own = self.tensors[x].shape
        if not self.symbolic and not all(s.is_const for s in own):
            return None
        shape, gone = flattened(own, axes)
        waits = self._gathered(x) if self._gathers else 0
        found: list[tuple[float, _Plan]] = []
        for run in gone:
            size = self.tensors[x].dtype.itemsize
            sizes = self._sizes(shape, gone, run, size, row)
            if sizes is None:
                continue
            sizes = replace(sizes, sums=sums, block=sizes.block + sizes.block // size * waits)
            if self._worth.hopeless(sizes, self.gain):
                continue
            # Searching the whole graph for other users is slow: do it only where it matters.
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

    def _gathered(self, x: str) -> int:
        """Return the bytes that a core reads while it gathers, one by one, what an element of a tensor is made of."""
        commands, todo, seen = 0, [x], {x}
        while todo:
            n = self._makers.get(todo.pop())
            if n is None or n.op in REDUCES or n.op == _SCAN:
                continue
            read = [i for i in n.inputs if isinstance(i, str) and i not in seen]
            if n.name in self._gathers:
                commands += self._gathers[n.name]
                read = read[1:]  # the data are in GM
            seen.update(read)
            todo += read
        elements = product(self.tensors[x].shape).as_int() or 1
        cycles = commands * gather_cycles(self.target)
        return int(cycles * self.target.load_rate_all / elements)

    def _typical(self, shape: Sequence[Expr], gone: Sequence[int]) -> dict[str, int]:
        """Return a value for every symbol: its hint, or one by which few elements are kept of many."""
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
        """Return sizes at the typical values of symbols; None where nothing is left or a size is invalid."""
        typical = self._typical(shape, gone)
        try:
            values = [e.evaluate(typical) for e in shape]
            if any(bounds(e, self.ranges)[0] < 0 for e in shape):
                return None
        except ExprError:
            return None  # a division by zero, at a size that no call may use
        if product(values) == 0:
            return None
        last = len(shape) - 1
        row = 1 if last in gone else min(values[last], neighbours)
        blocks = product(v for d, v in enumerate(values) if d not in gone and d != last).value
        blocks *= 1 if last in gone else blocks_of(values[last], neighbours)
        others = product(values[d] for d in gone if d != run).value
        return Sizes(values[run], blocks, others * row * itemsize, row * itemsize, again=False)

    def _scan(self, n: FusionNode, x: str) -> None:
        """Add a running sum, or its replacement."""
        rank = len(self.tensors[x].shape)
        named = n.attrs["axis"]
        assert isinstance(named, int)
        # The totals need a reduction of this type that sums as the running sum does.
        dtype = self.tensors[x].dtype
        call = find_call("ReduceSum", self.target.arch)
        native = call is not None and dtype.name in call.dtypes
        plan = None
        if native:
            axes = (named % rank,)
            plan = self._best(x, axes, LINE, sums=True)
        if plan is not None:
            plan = _Plan(plan.shape, plan.gone, plan.run, plan.parts, whole=True)
            # One group writes an output that overwrites an input, and never in pieces.
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

    # construction -------------------------------------------------------------------------
    def _split(self, n: FusionNode, x: str, plan: _Plan, follower: Follower | None) -> None:
        """Replace a reduction by the nodes of its halves."""
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
        """Return one half of a tensor that has the shape of the reduced operand."""
        plan = half.key[0]
        assert isinstance(plan, _Plan)
        return self._divide(n, x, plan)[half.lined < 0]

    def reduced_half(self, reduction: str, half: Half) -> str:
        """Return the result of an earlier reduction, given by its tensor, over one half."""
        division = self.divisions[reduction]
        return division.tail if half.lined < 0 else division.first

    def _divide(self, n: FusionNode, x: str, plan: _Plan) -> tuple[str, str]:
        """Return the equal parts of a tensor, and the short one; empty if it cannot exist."""
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
        """Add a node that keeps the type of its one operand, and return the name of its result."""
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
        """Add a node that does what ``n`` does, and return the name of its result."""
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
    """Return the shape with neighbouring reduced axes joined and sizes of 1 dropped, and its reduced axes."""
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
