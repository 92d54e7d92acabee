"""What a template costs, with the length of a tile left open: loops, copies and calls as functions of it.

Everything that the cost model asks of an ImplGraph is ``base + step * t``, t being the length of a tile, where ``base``
and ``step`` follow from the sizes of a call.  The generated host code holds these functions, ``tile_cost`` beside this
module evaluates them.  ``schedule.search.workload`` reads the same things off at one tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import TypeAlias

from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, Min, Sym, product, total
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.graph import AxisSizes, AxisType, ImplGraph, Node, TensorView
from autofuse.implgraph.ops.registry import lookup
from autofuse.schedule.axes.tile_limits import largest_tile, sample_env
from autofuse.schedule.cost.cache_hints import bypass_bytes
from autofuse.schedule.cost.cost import Conflict
from autofuse.schedule.cost.device_calls import Issued, open_tile
from autofuse.schedule.functions import issued
from autofuse.schedule.placement.permutation import is_permuted
from autofuse.schedule.placement.picking import beyond, is_run
from autofuse.schedule.search.workload import conflicts
from autofuse.targets import TargetSpec, VectorCost

__all__ = [
    "Affine",
    "BodyForm",
    "CallForm",
    "CopyForm",
    "CostForm",
    "Place",
    "Route",
    "cost_form",
    "six_digits",
]


class Place(IntEnum):
    """Where a loop body runs: once per core, for every tile, in every step of the reduce loop."""

    ONCE = 0
    TILE = 1
    STEP = 2


class Route(IntEnum):
    """Where the bytes of a copy go or come from."""

    #: From memory; what is read more than once comes from L2.
    READ = 0
    #: Read before by the same cores, or written by them: from L2.
    AGAIN = 1
    #: Written to GM.
    WRITE = 2
    #: From memory, bypassing L2 where that cannot hold what the kernel asks it to.
    STREAM = 3


@frozen
class Affine:
    """``base + step * t`` with t the length of a tile; neither contains t."""

    base: Expr
    step: Expr

    def __add__(self, other: Affine) -> Affine:
        return Affine(self.base + other.base, self.step + other.step)

    def times(self, factor: Expr | int) -> Affine:
        """Both parts times ``factor``."""
        step = self.step if self.step is ZERO else self.step * factor
        return Affine(self.base * factor, step)

    def exprs(self) -> tuple[Expr, Expr]:
        """Both parts."""
        return self.base, self.step


SINGLE = Affine(ONE, ZERO)


def _sum(parts: Sequence[Affine]) -> Affine:
    """The sum of one or more."""
    if len(parts) == 1:
        return parts[0]
    return Affine(total(p.base for p in parts), total(p.step for p in parts))


@frozen
class CopyForm:
    """Loads or Stores of one body that do the same.

    Attributes:
        body: index of the body.
        nodes: their names.
        commands, rows: of a whole tile.
        row_bytes: bytes of a row; times ``rows`` those of the copy.
        apart: distances of rows in GM, in bytes, as (size of the axis or None, distance); those of axes with more than
            one index count.
        tiles_apart: distances in bytes per element of t, where there is more than one tile.
        distinct: bytes that are touched, each counted once; 0 for the route ``AGAIN``.
        varying: sizes of the axes of loops along which it varies, beside that of the tiles, ...
        varies_by_tile: ... and whether along that one.
        cycles: of its pipe as a weighted sum, where they do not follow from commands, rows and bytes.
    """

    body: int
    route: Route
    nodes: tuple[str, ...]
    commands: Affine
    rows: Affine
    row_bytes: Affine
    apart: tuple[tuple[Expr | None, Expr], ...]
    tiles_apart: tuple[Expr, ...]
    distinct: Expr
    varying: tuple[Expr, ...]
    varies_by_tile: bool
    cycles: tuple[tuple[float, Affine], ...] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.nodes)


@frozen
class CallForm:
    """Vector calls of one body: cycles as weighted sums, 1 + log2(``along``) times, rounded up."""

    body: int
    cycles: tuple[tuple[float, Affine], ...]
    along: Affine = SINGLE

    def exprs(self) -> tuple[Expr, ...]:
        """Every expression in it."""
        return (*(e for _, a in self.cycles for e in a.exprs()), *self.along.exprs())


@frozen
class BodyForm:
    """One loop body.

    Attributes:
        ops: names of its vector nodes.
        heads: cycles that its element-wise calls take whatever their length.
        scalar: cycles of the scalar unit.
        buffers: of each queue.
        chained: what is loaded is stored from the same buffer.
        loads: whether it waits for a first byte.
        staggered: whether every core starts at another step.
    """

    place: Place
    ops: tuple[str, ...]
    heads: float
    scalar: float
    buffers: int
    chained: bool
    loads: bool
    staggered: bool = False


@frozen
class CostForm:
    """A template's costs; ``barriers`` are not among them."""

    bodies: tuple[BodyForm, ...]
    copies: tuple[CopyForm, ...]
    calls: tuple[CallForm, ...]

    @property
    def reads_again(self) -> bool:
        """Whether a core loads what was loaded or written before, as the second pass over long rows does."""
        return any(c.route is Route.AGAIN for c in self.copies)

    def sizes(self) -> tuple[Expr, ...]:
        """What a legal tile does not bound: bytes of tensors, and distances in them."""
        out: list[Expr] = []
        for c in self.copies:
            out += [c.distinct * c.count, *(d for _, d in c.apart), *c.tiles_apart]
            out += [size for size, _ in c.apart if size is not None]
        return tuple(dict.fromkeys(out))

    def exprs(self) -> tuple[Expr, ...]:
        """Every expression in it, in a fixed order."""
        out: list[Expr] = []
        for c in self.copies:
            for a in (c.commands, c.rows, c.row_bytes):
                out += a.exprs()
            out += [c.distinct, *c.varying, *c.tiles_apart]
            out += [e for _, a in c.cycles for e in a.exprs()]
            out += [e for pair in c.apart for e in pair if e is not None]
        for call in self.calls:
            out += call.exprs()
        return tuple(out)


def cost_form(impl: ImplGraph, target: TargetSpec) -> CostForm:
    """The costs of a template on a chip.

    Whether operands of a call collide in the banks of UB depends on the tile; it is taken from the largest one at
    typical sizes.
    """
    return _FormReader(impl, target).form()


#: Members that every node asks for; the interpreter takes long to look them up.
_ONCE, _TILE, _STEP = Place.ONCE, Place.TILE, Place.STEP
_READ, _AGAIN, _WRITE = Route.READ, Route.AGAIN, Route.WRITE
_NO_CONFLICT = Conflict.NONE
_BLOCK_OUT, _BLOCK_IN, _MERGED = AxisType.BLOCK_OUT, AxisType.BLOCK_IN, AxisType.MERGED


class _FormReader:
    """Reads the costs of one template."""

    def __init__(self, impl: ImplGraph, target: TargetSpec) -> None:
        self.impl, self.target = impl, target
        spec = impl.tiling
        self.t, self.tile = spec.tile_size, Sym(spec.tile_size)
        self.named = impl.by_name()
        self.size = AxisSizes(impl.axes)
        # An axis in tiles of a constant length may be shorter than one of them.
        for _, inside in impl.cut_axes():
            self.size[inside.id] = Min(inside.size, self.size[inside.origin[0]])
        self.tile_in = impl.tile(AxisType.TILE_IN).id
        self.tile_out = impl.tile(AxisType.TILE_OUT).id
        self.sample = sample_env(impl)
        tile = max(largest_tile(spec, self.sample), 1)
        self.collide = {n.name: c for n, _, c in conflicts(impl, self.sample, tile, target.arch)}
        self.sample[self.t] = min(tile, max(spec.extent.evaluate(self.sample), 1))
        self.open = open_tile(spec, self.sample)
        self.sample = dict(self.open.typical)
        self.buffers = min((b.buf_num for b in impl.buffers if b.kind == "queue"), default=2)
        self.carried = {name for b in impl.buffers if b.copy for name in b.tensors}
        self.seen: set[tuple[object, ...]] = set()
        self.known: dict[tuple[int, ...], Affine] = {}
        self.parts: dict[int, frozenset[int]] = {}
        #: What the reduce loop goes through.
        self.looped = set() if impl.r_axis is None else impl.merged_from(impl.r_axis)
        #: Numbers of the ways in which copies lie in GM and in UB, ...
        self.lies: dict[tuple[object, ...], int] = {}
        #: ... and of forms, by that, whether their bytes were read before, and whether they wait for an index.
        self.copied: dict[tuple[int, bool, bool], int] = {}
        self.forms: dict[CopyForm, int] = {}
        #: Indices that a Load of the same body goes by.
        self.awaited: set[str] = set()
        self.bodies: list[BodyForm] = []
        self.copies: list[CopyForm] = []
        self.calls: list[CallForm] = []

    def form(self) -> CostForm:
        nodes = [n for n in self.impl.nodes if n.api is not None]
        once = [n for n in nodes if n.loop_axis is None]
        inner = [n for n in nodes if n.loop_axis is not None and n.loop_axis == self.impl.r_axis]
        outer = [n for n in nodes if n.loop_axis is not None and n.loop_axis != self.impl.r_axis]
        # What was read before is known in the order of workload: once, per tile, per step.
        routes = {n.name: self._route(n) for part in (once, outer, inner) for n in part}
        for p in sorted({n.loop_pass for n in inner}):
            self._body(_STEP, [n for n in inner if n.loop_pass == p], routes)
        if outer:
            self._body(_TILE, outer, routes)
        if once:
            self._body(_ONCE, once, routes)
        return CostForm(tuple(self.bodies), tuple(self.copies), tuple(self.calls))

    # bodies -----------------------------------------------------------------------------------
    def _body(self, place: Place, nodes: Sequence[Node], routes: Mapping[str, Route]) -> None:
        m, index = self.target.model, len(self.bodies)
        self.awaited = {i for n in nodes if n.op == "Load" for i in n.inputs[1:]}
        self.copies += self._copies(nodes, index, routes)
        vector = [n for n in nodes if n.api is not None and n.api.unit == "Vector"]
        heads: list[float] = []
        cycles: dict[Expr, _Weighted] = {}
        for n in vector:
            head = self._calls(n, cycles)
            heads += [head] if head is not None else []
        head = max(heads, default=0.0) if m.vector_fused else sum(heads)
        # Those that are issued once come first, as the generated code adds them up.
        along = sorted(cycles, key=lambda a: a != ONE)
        self.calls += [CallForm(index, _folded(cycles[a]), Affine(a, ZERO)) for a in along]
        loads = [n for n in nodes if n.op == "Load"]
        reads = sum(not n.y.vectorized_axis for n in loads)
        self.bodies.append(
            BodyForm(
                place,
                tuple(n.name for n in vector),
                six_digits(head),
                six_digits(m.loop + m.scalar_read * reads),
                self.buffers,
                any(n.name in self.carried for n in loads),
                bool(loads),
                place is _STEP and nodes[0].loop_pass in self.impl.tiling.staggered,
            )
        )

    def _calls(self, n: Node, cycles: dict[Expr, _Weighted]) -> float | None:
        """Adds the cycles of a vector node; the head of its call, 0 for one of many calls, None where it is free.

        Args:
            n: the node.
            cycles: of instructions, by what the logarithm of says how often they are issued.
        """
        operands = self._tensors(n)
        bits = max([n.y.dtype.bits, *[x.y.dtype.bits for x in operands]])
        found = issued(
            n, self.impl, self.named, lambda a: self.size[a], self.open, self.target.arch
        )
        if found is not None:
            for x in found:
                self._issue(x, bits, cycles)
            return self._longest(found)
        row = self.target.vector[lookup(n.op).cost]
        if not row.rate32:
            return None
        per_element = self._per_element(row, bits, self.collide.get(n.name, _NO_CONFLICT))
        _add(cycles, ONE, per_element, self._elements(n.y.vectorized_axis))
        return row.head + self.target.model.vector_gap

    def _per_element(self, row: VectorCost, bits: int, conflict: Conflict) -> float:
        """Cycles of an element."""
        m, factor = self.target.model, 1.0
        if conflict is not _NO_CONFLICT:
            sources = conflict is Conflict.SOURCES
            factor = m.conflict_sources if sources else m.conflict_result
        return factor / ((row.rate16 if bits <= 16 else row.rate32) * m.vector_issue)

    def _issue(self, x: Issued, bits: int, cycles: dict[Expr, _Weighted]) -> None:
        """Adds the cycles of instructions; on registers, where calls have one head in all, without heads."""
        m, row = self.target.model, self.target.vector[x.kind]
        if not row.rate32:
            return
        per_element = self._per_element(row, bits, x.conflict)
        parts = [(w * per_element, e) for w, e in x.elements.parts]
        if not m.vector_fused:
            parts += [(w * row.head, e) for w, e in x.calls.parts]
            parts.append((m.vector_gap * x.waits, ONE))
        for weight, e in parts:
            _add(cycles, x.along, weight, self._affine(e * x.times))

    def _longest(self, found: Iterable[Issued]) -> float:
        """The head of the longest call, where all have one in common."""
        m = self.target.model
        heads = (self.target.vector[x.kind].head for x in found)
        return max(heads, default=0.0) + m.vector_gap if m.vector_fused else 0.0

    def _tensors(self, n: Node) -> list[Node]:
        return [self.named[i] for i in n.inputs if i in self.named and self._in_ub(i)]

    def _in_ub(self, name: str) -> bool:
        return bool(self.named[name].y.vectorized_axis)

    # copies -----------------------------------------------------------------------------------
    def _copies(
        self, nodes: Sequence[Node], body: int, routes: Mapping[str, Route]
    ) -> list[CopyForm]:
        """The Loads and Stores of a body, those that do the same as one."""
        found: dict[tuple[int, Route], list[str]] = {}
        for n in nodes:
            if not _copies(n):
                continue
            y, route = n.y, routes[n.name]
            where = (y.dtype.itemsize, y.axis, y.strides, y.offset)
            index = tuple((v.axis, v.strides) for v in self._indices(n))
            lies = (is_run(n), beyond(n), *where, y.vectorized_axis, y.vectorized_strides, index)
            lie = self.lies.setdefault(lies, len(self.lies))
            key = (lie, route is _AGAIN, n.name in self.awaited)
            number = self.copied.get(key)
            if number is None:
                form = self._copy(n, route)
                number = self.copied[key] = self.forms.setdefault(form, len(self.forms))
            found.setdefault((number, route), []).append(n.name)
        forms = tuple(self.forms)
        return [
            replace(forms[number], body=body, route=route, nodes=tuple(names))
            for (number, route), names in found.items()
        ]

    def _copy(self, n: Node, route: Route) -> CopyForm:
        """One Load or Store; its body, route and tensor are for the caller to say."""
        y = n.y
        item = y.dtype.itemsize
        rows, commands, row = self._rows(n)
        apart, tiles_apart = self._distances(n)
        step = 1
        if is_run(n):  # with what lies between the elements
            step = abs(dict(zip(y.axis, y.strides, strict=True))[y.vectorized_axis[-1]].value)
        if n.name in self.awaited:
            # MTE2 stands still until the index is there and read; that is as long as so many commands.
            m = self.target.model
            more = math.ceil((m.load_latency + m.scalar_read) / m.load_issue)
            commands = Affine(commands.base + more, commands.step)
        # Where an index directs a load, other elements of the index are other places.
        moving = [
            a
            for v in (y, *self._indices(n))
            for a, s in zip(v.axis, v.strides, strict=True)
            if s.number != 0
            and a not in v.vectorized_axis
            and self._parts_of(a).isdisjoint(self.looped)
        ]
        own = {p for a in moving for p in self._parts_of(a) if p != self.tile_out}
        return CopyForm(
            0,
            _READ,
            (),
            commands,
            rows,
            row.times(item),
            apart,
            tiles_apart,
            ZERO if route is _AGAIN else self._distinct(n) * item * step,
            tuple(dict.fromkeys(self.size[a] for a in sorted(own))),
            any(self.tile_out in self._parts_of(a) for a in moving),
            self._own_cycles(n),
        )

    def _own_cycles(self, n: Node) -> tuple[tuple[float, Affine], ...]:
        """Cycles of a load of several dimensions, which goes from element to element."""
        if not is_permuted(n):
            return ()
        m = self.target.model
        by_element = six_digits(n.y.dtype.itemsize / m.dims_rate)
        return (six_digits(m.dims_issue), SINGLE), (by_element, self._elements(n.y.vectorized_axis))

    def _indices(self, n: Node) -> list[TensorView]:
        """Of a Load: the index that says where it takes its elements, if there is one."""
        return [self.named[i].y for i in n.inputs[1:]] if n.op == "Load" else []

    def _route(self, n: Node) -> Route:
        if n.op == "Store":
            return _WRITE
        if n.op != "Load":
            return _READ
        y = n.y
        key = (n.inputs[0], y.offset, y.strides)
        before = len(self.seen)
        self.seen.add(key)
        if len(self.seen) == before or self.named[n.inputs[0]].op == "Workspace":
            return _AGAIN
        return _READ if bypass_bytes(n) is None else Route.STREAM

    def _rows(self, n: Node) -> tuple[Affine, Affine, Affine]:
        """Rows of a copy, commands, and elements of a row; axes whose elements follow on each other are one."""
        y = n.y
        if is_permuted(n):
            return SINGLE, SINGLE, self._elements(y.vectorized_axis)
        gm = dict(zip(y.axis, y.strides, strict=True))
        single = y.vectorized_strides[-1:] not in ((), (ONE,)) and not is_run(n)
        dims: list[tuple[Expr, Expr, Expr]] = [(ONE, ONE, ONE)] if single else []
        commands = ONE
        for a, pitch in reversed(list(zip(y.vectorized_axis, y.vectorized_strides, strict=True))):
            size, step = self.size[a], gm[a]
            if step == 0:
                commands = commands * size
            elif dims and (step, pitch) == (dims[0][1] * dims[0][0], dims[0][2] * dims[0][0]):
                dims[0] = (size * dims[0][0], *dims[0][1:])
            else:
                dims.insert(0, (size, step, pitch))
        if dims and is_run(n):
            size, step, _ = dims[-1]
            dims[-1] = ((size - 1) * abs(step.value) + 1 + beyond(n), ONE, ONE)
        sizes = [d[0] for d in dims]
        far = False  # backwards, or rows that overlap: every row is a command
        if len(dims) > 1:
            far = dims[-2][1].evaluate(self.sample) < dims[-1][0].evaluate(self.sample)
        rows = self._product([commands, *sizes[:-1]])
        return (
            rows,
            self._product([commands, *sizes[: -1 if far else -2]]),
            self._product(sizes[-1:]),
        )

    def _distances(self, n: Node) -> tuple[tuple[tuple[Expr | None, Expr], ...], tuple[Expr, ...]]:
        """Distances in bytes between places in GM, and those between tiles per element of a tile."""
        y = n.y
        item, inside = y.dtype.itemsize, y.vectorized_axis[-1:] if is_run(n) else ()
        aligned: list[tuple[Expr | None, Expr]] = []
        tiled: list[Expr] = []
        if y.offset != 0:
            aligned.append((None, y.offset * item))
        if self._indices(n):
            aligned.append((None, n.size("stride") * item))
        for a, stride in zip(y.axis, y.strides, strict=True):
            axis = self.impl.axes[a]
            if stride.number in (0, 1) or a in inside or axis.type is _BLOCK_OUT:
                continue  # blocks are as far apart as a number of the tiles in them
            root = axis.origin[0] if axis.type is _BLOCK_IN else a
            if root == self.tile_out:
                tiled.append(self._affine(stride).step * item)
            elif self.size[root].number != 1:
                known = self.size[root].is_const or a == self.tile_in
                condition = None if known else self.size[root]
                aligned.append((condition, self._affine(stride).base * item))
        return tuple(dict.fromkeys(aligned)), tuple(dict.fromkeys(tiled))

    def _distinct(self, n: Node) -> Expr:
        """Elements of GM that a copy touches; what an index names is taken to be other elements each time."""
        roots: dict[int, Expr] = {}
        directed = bool(self._indices(n))
        for a, stride in zip(n.y.axis, n.y.strides, strict=True):
            if stride.number == 0 and not directed:
                continue
            for root in self._parts_of(a):
                tile = root in (self.tile_in, self.tile_out)
                key = self.tile_in if tile else root
                roots[key] = self.impl.tiling.extent if tile else self.size[root]
        return product(roots.values())

    def _parts_of(self, axis: int) -> frozenset[int]:
        """The axes that an axis of loops goes through: blocks and merged axes resolved."""
        found = self.parts.get(axis)
        if found is None:
            found = self.parts[axis] = frozenset(self._parts(axis))
        return found

    def _parts(self, axis: int) -> Iterable[int]:
        found = self.impl.axes[axis]
        if found.type in (_BLOCK_OUT, _BLOCK_IN):
            yield from self._parts(found.origin[0])
        elif found.type is _MERGED and self._made_of_tiles(found.origin):
            for a in found.origin:
                yield from self._parts(a)
        else:
            yield axis

    def _made_of_tiles(self, origin: Sequence[int]) -> bool:
        """Whether an axis is merged for the loop over blocks, not before the template was chosen."""
        return any(self.impl.axes[a].type is not AxisType.ORIGINAL for a in origin)

    # functions of the tile --------------------------------------------------------------------
    def _elements(self, axes: tuple[int, ...]) -> Affine:
        """Elements of a tensor with these axes in a tile."""
        found = self.known.get(axes)
        if found is None:
            found = self.known[axes] = self._product(self.size[a] for a in axes)
        return found

    def _product(self, sizes: Iterable[Expr]) -> Affine:
        return self._affine(product(sizes))

    def _affine(self, e: Expr) -> Affine:
        """``e`` by powers of the tile symbol.

        Raises:
            ValueError: it is not of the form ``base + step * t``.
        """
        if e is ONE:
            return SINGLE
        if e.is_const or self.t not in e.symbols():
            return Affine(e, ZERO)
        return _by_powers(e, self.tile)


@lru_cache(maxsize=4096)
def _by_powers(e: Expr, tile: Sym) -> Affine:
    # Remembered: tensors of several templates, and of several graphs, have the same few lengths.
    parts: list[list[Expr]] = [[], []]
    for monomial, c in e.terms:
        power = next((p for a, p in monomial if a == tile), 0)
        rest = Expr((((tuple([(a, p) for a, p in monomial if a != tile])), c),))
        if power > 1 or tile.name in rest.symbols():
            raise ValueError(f"{e} is not linear in {tile.name}")
        parts[power].append(rest)
    return Affine(total(parts[0]), total(parts[1]))


#: Parts of a sum by the number that they are multiplied with.
_Weighted: TypeAlias = dict[float, list[Affine]]


def _add(cycles: dict[Expr, _Weighted], along: Expr, weight: float, count: Affine) -> None:
    cycles.setdefault(along, {}).setdefault(six_digits(weight), []).append(count)


def _folded(by_weight: _Weighted) -> tuple[tuple[float, Affine], ...]:
    """The sum: what is known before sizes are, that per element of a tile, and others by their weight."""
    known = per_element = 0.0
    out = []
    for weight, parts in by_weight.items():
        count = _sum(parts)
        if count.base.number is None or count.step.number is None:
            out.append((weight, count))
            continue
        known += weight * count.base.number
        per_element += weight * count.step.number
    fixed = ((known, SINGLE), (per_element, Affine(ZERO, ONE)))
    return (*((six_digits(w), a) for w, a in fixed if w), *out)


def six_digits(figure: float) -> float:
    """A figure as the generated code prints it, and as it is computed with here."""
    return float(f"{figure:.6g}")


def _copies(n: Node) -> bool:
    return n.op in ("Load", "Store")
