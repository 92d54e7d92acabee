"""Cost of a template with the length of a tile left open: loops, copies and calls as functions of it.

Everything that the cost model needs from an ImplGraph has the form ``base + step * t``, where t is the tile length and
``base`` and ``step`` follow from the sizes of a call.  The generated host code contains these functions; the sibling
module ``bound`` binds them to sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from autofuse.implgraph.expr.expression import (
    ONE,
    ZERO,
    Expr,
    Min,
    Sym,
    const,
    divide_exact,
    product,
    total,
)
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import AxisSizes, AxisType, ImplGraph, Node, TensorView
from autofuse.implgraph.ops.registry import lookup
from autofuse.schedule.axes.tile_limits import largest_tile, sample_env
from autofuse.schedule.cost.cache_hints import bypass_bytes
from autofuse.schedule.cost.cost import Conflict
from autofuse.schedule.cost.device_calls import Issued, open_tile
from autofuse.schedule.cost.ub_map import conflicts
from autofuse.schedule.functions import issued
from autofuse.schedule.placement.copied import copied
from autofuse.schedule.placement.permutation import is_permuted
from autofuse.schedule.placement.picking import beyond, is_run
from autofuse.schedule.placement.scalars import is_copied, is_scalar
from autofuse.schedule.search.form import (
    SINGLE,
    Affine,
    BodyForm,
    CallForm,
    CopyForm,
    CostForm,
    Place,
    Route,
)
from autofuse.targets import TargetSpec, VectorCost

__all__ = [
    "cost_form",
    "six_digits",
]


def _sum(parts: Sequence[Affine]) -> Affine:
    """Return the sum of one or more."""
    if len(parts) == 1:
        return parts[0]
    return Affine(total(p.base for p in parts), total(p.step for p in parts))


def cost_form(impl: ImplGraph, target: TargetSpec) -> CostForm:
    """Return the costs of a template on a chip.

    Whether operands of a call collide in the banks of UB depends on the tile; it is taken from the largest one at
    typical sizes.
    """
    return _FormReader(impl, target).form()


#: Enum members used for every node, bound once because the lookup is slow.
_ONCE, _TILE, _STEP = Place.ONCE, Place.TILE, Place.STEP
_READ, _AGAIN, _WRITE = Route.READ, Route.AGAIN, Route.WRITE
_NO_CONFLICT = Conflict.NONE
_BLOCK_OUT, _BLOCK_IN, _MERGED = AxisType.BLOCK_OUT, AxisType.BLOCK_IN, AxisType.MERGED


class _FormReader:
    """Reads the costs of one template."""

    def __init__(self, impl: ImplGraph, target: TargetSpec) -> None:
        self.impl, self.target = impl, target
        spec = impl.tiling
        self.t, self.tile = spec.opened.symbol, Sym(spec.opened.symbol)
        self.named = impl.by_name()
        self.size = AxisSizes(impl.axes)
        # An axis cut into tiles of constant length may be shorter than one tile.
        for _, inside in impl.cut_axes():
            self.size[inside.id] = Min(inside.size, self.size[inside.origin[0]])
        self.tile_in = impl.tile(AxisType.TILE_IN).id
        self.tile_out = impl.tile(AxisType.TILE_OUT).id
        self.sample = sample_env(impl)
        tile = max(largest_tile(spec, self.sample), 1)
        self.collide = {n.name: c for n, _, c in conflicts(impl, self.sample, tile, target.arch)}
        self.sample[self.t] = min(tile, max(spec.opened.extent.evaluate(self.sample), 1))
        self.open = open_tile(spec, self.sample)
        length = spec.opened.extent.as_int() or 1 << 62
        self.ranges = {s.name: (s.min, s.max) for s in impl.symbols} | {self.t: (1, length)}
        self.buffers = min((b.buf_num for b in impl.buffers if b.kind == "queue"), default=2)
        self.carried = {name for b in impl.buffers if b.copy for name in b.tensors}
        self.seen: set[tuple[object, ...]] = set()
        #: Offsets of the Loads of a tensor that differ only in these, ...
        self.offsets: dict[tuple[object, ...], list[Expr]] = {}
        #: ... and the elements of each that no earlier one loads, where an earlier one loads most of them.
        self.fresh: dict[str, Expr] = {}
        self.known: dict[tuple[int, ...], Affine] = {}
        self.parts: dict[int, frozenset[int]] = {}
        #: Axes that the reduce loop traverses.
        self.looped = set() if impl.r_axis is None else impl.merged_from(impl.r_axis)
        #: Numbering of the layouts of copies in GM and UB, ...
        self.lies: dict[tuple[object, ...], int] = {}
        #: ... and of copy forms, by layout and by whether their bytes were read before.
        self.copied: dict[tuple[int, bool, Expr | None], int] = {}
        self.forms: dict[CopyForm, int] = {}
        #: Indices used by a Load of the same body.
        self.awaited: set[str] = set()
        self.kinds: set[str] = set()
        self.bodies: list[BodyForm] = []
        self.copies: list[CopyForm] = []
        self.calls: list[CallForm] = []

    def form(self) -> CostForm:
        nodes = [n for n in self.impl.nodes if n.api is not None]
        once = [n for n in nodes if n.loop_axis is None]
        inner = [n for n in nodes if n.loop_axis is not None and n.loop_axis == self.impl.r_axis]
        outer = [n for n in nodes if n.loop_axis is not None and n.loop_axis != self.impl.r_axis]
        # Visit bodies in execution order (once, per tile, per step) to know which bytes were read before.
        routes = {n.name: self._route(n) for part in (once, outer, inner) for n in part}
        for p in sorted({n.loop_pass for n in inner}):
            self._body(_STEP, [n for n in inner if n.loop_pass == p], routes)
        if outer:
            self._body(_TILE, outer, routes)
        if once:
            self._body(_ONCE, once, routes)
        parts = tuple(self.bodies), tuple(self.copies), tuple(self.calls)
        return CostForm(*parts, frozenset(self.kinds))

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
        # Calls issued once come first, in the order in which the generated code adds them.
        along = sorted(cycles, key=lambda a: a != ONE)
        self.calls += [CallForm(index, _folded(cycles[a]), Affine(a, ZERO)) for a in along]
        loads = [n for n in nodes if n.op == "Load" and is_copied(n)]
        scalars = sum(is_scalar(n) for n in nodes)
        reads = sum(not n.y.vectorized_axis and n.name not in self.awaited for n in loads) + scalars
        waits = any(n.name in self.awaited for n in nodes)
        self.bodies.append(
            BodyForm(
                place,
                tuple(n.name for n in vector),
                six_digits(head),
                six_digits(max(m.loop + m.scalar_read * reads, m.load_latency * bool(scalars))),
                self.buffers,
                any(n.name in self.carried for n in loads),
                bool(loads),
                place is _STEP and nodes[0].loop_pass in self.impl.tiling.staggered,
                six_digits(m.scalar_read) if waits else 0.0,
                tuple(self._places(loads)),
            )
        )

    def _places(self, loads: Iterable[Node]) -> Iterator[tuple[float, Affine]]:
        """Yield the cycles of the scalar unit for reading the positions of indexed loads, one per command."""
        m = self.target.model
        for n in loads:
            if len(n.inputs) > 1:
                commands = self._rows(n)[1]
                several = commands != SINGLE  # separate loop
                yield six_digits(m.scalar_read + m.loop * several), commands

    def _calls(self, n: Node, cycles: dict[Expr, _Weighted]) -> float | None:
        """Add the cycles of a vector node; return the head of its call, 0 for a device function, None if it is free.

        Args:
            n: the node.
            cycles: cycles of instructions, by the expression whose logarithm multiplies them.
        """
        operands = self._tensors(n)
        bits = max([n.y.dtype.bits, *[x.y.dtype.bits for x in operands]])
        found = issued(
            n, self.impl, self.named, lambda a: self.size[a], self.open, self.target.arch
        )
        if found is not None:
            for x in found:
                self.kinds.add(x.kind)
                self._issue(x, bits, cycles)
            return self._longest(found)
        self.kinds.add(lookup(n.op).cost)
        row = self.target.vector[lookup(n.op).cost]
        if not row.rate32:
            return None
        per_element = self._per_element(row, bits, self.collide.get(n.name, _NO_CONFLICT))
        _add(cycles, ONE, per_element, self._elements(n.y.vectorized_axis))
        return row.head + self.target.model.vector_gap

    def _per_element(self, row: VectorCost, bits: int, conflict: Conflict) -> float:
        """Return the cycles per element."""
        m, factor = self.target.model, 1.0
        if conflict is not _NO_CONFLICT:
            sources = conflict is Conflict.SOURCES
            factor = m.conflict_sources if sources else m.conflict_result
        return factor / ((row.rate16 if bits <= 16 else row.rate32) * m.vector_issue)

    def _issue(self, x: Issued, bits: int, cycles: dict[Expr, _Weighted]) -> None:
        """Add the cycles of instructions; without heads on a register architecture, where all calls share one head."""
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
        """Return the head of the longest call, if all calls share one."""
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
        """Return the Loads and Stores of a body, merging equal ones."""
        found: dict[tuple[int, Route], list[str]] = {}
        for n in nodes:
            if not is_copied(n):
                continue
            y, route = n.y, routes[n.name]
            where = (y.dtype.itemsize, y.axis, y.strides, y.offset)
            index: tuple[object, ...] = tuple((v.axis, v.strides) for v in self._indices(n))
            if index:
                index += (n.size("stride"), n.size("extent"))
            lies = (is_run(n), beyond(n), *where, y.vectorized_axis, y.vectorized_strides, index)
            lie = self.lies.setdefault(lies, len(self.lies))
            key = (lie, route is _AGAIN, self.fresh.get(n.name))
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
        """Return one Load or Store; the caller sets its body, route and tensor."""
        y = n.y
        item = y.dtype.itemsize
        rows, commands, row = self._rows(n)
        apart, tiles_apart = self._distances(n)
        step = 1
        if is_run(n):  # including the gaps between elements
            step = abs(dict(zip(y.axis, y.strides, strict=True))[y.vectorized_axis[-1]].value)
        # For an indexed load, other elements of the index mean other positions.
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
            ZERO if route is _AGAIN else (self._distinct(n) * step + self._padding(n)) * item,
            tuple(dict.fromkeys(self.size[a] for a in sorted(own))),
            any(self.tile_out in self._parts_of(a) for a in moving),
            self._own_cycles(n),
            *self._named(n),
        )

    def _own_cycles(self, n: Node) -> tuple[tuple[float, Affine], ...]:
        """Return the cycles of a multi-dimensional load, which moves element by element."""
        if not is_permuted(n):
            return ()
        m = self.target.model
        by_element = six_digits(n.y.dtype.itemsize / m.dims_rate)
        return (six_digits(m.dims_issue), SINGLE), (by_element, self._elements(n.y.vectorized_axis))

    def _named(self, n: Node) -> tuple[Expr, Expr]:
        """Return the number of positions that an index may select, and elements of that index; 0 for other copies."""
        indices = self._indices(n)
        if not indices:
            return ZERO, ZERO
        (index,) = indices
        extents = self._sizes_of(index).values()
        return n.size("extent"), product(extents)

    def _indices(self, n: Node) -> list[TensorView]:
        """Return the index of a Load, if it has one."""
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
        self._shifted(n)
        if len(self.seen) == before or self.named[n.inputs[0]].op == "Workspace":
            return _AGAIN
        return _READ if bypass_bytes(n) is None else Route.STREAM

    def _rows(self, n: Node) -> tuple[Affine, Affine, Affine]:
        """Return the rows of a copy, its commands, and the elements of a row."""
        if is_permuted(n):
            return SINGLE, SINGLE, self._elements(n.y.vectorized_axis)
        moved = copied(n, lambda a: self.size[a])
        loops = [d.size for d in moved.directed]
        sizes = [d.size for d in moved.dims]
        last = len(sizes) - moved.in_command(self.target.arch, self.ranges)
        rows, commands = [*loops, *sizes[:-1]], [*loops, *sizes[:last]]
        return self._product(rows), self._product(commands), self._product(sizes[-1:])

    def _distances(self, n: Node) -> tuple[tuple[tuple[Expr | None, Expr], ...], tuple[Expr, ...]]:
        """Return the distances in bytes between rows in GM, and those between tiles per element of a tile."""
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
                continue  # the distance between blocks is a multiple of the distance between tiles
            root = axis.origin[0] if axis.type is _BLOCK_IN else a
            if root == self.tile_out:
                tiled.append(self._affine(stride).step * item)
            elif self.size[root].number != 1:
                known = self.size[root].is_const or a == self.tile_in
                condition = None if known else self.size[root]
                aligned.append((condition, self._affine(stride).base * item))
        return tuple(dict.fromkeys(aligned)), tuple(dict.fromkeys(tiled))

    def _shifted(self, n: Node) -> None:
        """Record the elements of a Load beyond those of the earlier Load with the smallest shift, as slices overlap."""
        y = n.y
        earlier = self.offsets.setdefault((n.inputs, y.axis, y.strides), [])
        found: list[tuple[int, int]] = []
        for offset in earlier:
            for a, stride in zip(y.axis, y.strides, strict=True):
                steps = None if stride.number == 0 else divide_exact(y.offset - offset, stride)
                if steps is not None and steps.number and len(self._parts_of(a)) == 1:
                    found.append((abs(steps.value), a))
                    break
        earlier.append(y.offset)
        if not found or len(n.inputs) > 1:
            return
        least, along = min(found)
        (root,) = self._parts_of(along)
        sizes = self._extents(n)
        size = sizes.pop(self._root(root))
        if size.number is None or least < size.number:
            self.fresh[n.name] = product([const(least), *sizes.values()])

    def _distinct(self, n: Node) -> Expr:
        """Return the GM elements that a copy touches and no earlier one did; an index selects new ones each time."""
        fresh = self.fresh.get(n.name)
        return product(self._extents(n).values()) if fresh is None else fresh

    def _padding(self, n: Node) -> Expr:
        """Return the GM elements behind short rows that a Load takes to complete blocks."""
        if is_run(n) or not beyond(n):
            return ZERO
        row = copied(n, lambda a: self.size[a]).dims[-1].size - beyond(n)
        rows = divide_exact(self._distinct(n), row)
        return ZERO if rows is None else rows * beyond(n)

    def _root(self, axis: int) -> int:
        """Return the axis that represents an axis in sizes: tiles and their insides count as one."""
        return self.tile_in if axis == self.tile_out else axis

    def _extents(self, n: Node) -> dict[int, Expr]:
        """Return the sizes of the axes along which a copy traverses GM."""
        return self._sizes_of(n.y, directed=bool(self._indices(n)))

    def _sizes_of(self, y: TensorView, *, directed: bool = False) -> dict[int, Expr]:
        roots: dict[int, Expr] = {}
        for a, stride in zip(y.axis, y.strides, strict=True):
            if stride.number == 0 and not directed:
                continue
            for root in self._parts_of(a):
                key = self._root(root)
                tiled = key == self.tile_in
                roots[key] = self.impl.tiling.opened.extent if tiled else self.size[key]
        return roots

    def _parts_of(self, axis: int) -> frozenset[int]:
        """Return the axes that a loop axis traverses, with blocks and merged axes resolved."""
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
        """Return True if an axis was merged for the loop over blocks, not before the template was chosen."""
        return any(self.impl.axes[a].type is not AxisType.ORIGINAL for a in origin)

    # functions of the tile --------------------------------------------------------------------
    def _elements(self, axes: tuple[int, ...]) -> Affine:
        """Return the elements of a tensor with these axes in a tile."""
        found = self.known.get(axes)
        if found is None:
            found = self.known[axes] = self._product(self.size[a] for a in axes)
        return found

    def _product(self, sizes: Iterable[Expr]) -> Affine:
        return self._affine(product(sizes))

    def _affine(self, e: Expr) -> Affine:
        """Return ``e`` by powers of the tile symbol.

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
    # Cached: tensors of several templates, and of several graphs, share a few lengths.
    parts: list[list[Expr]] = [[], []]
    for monomial, c in e.terms:
        power = next((p for a, p in monomial if a == tile), 0)
        rest = Expr((((tuple([(a, p) for a, p in monomial if a != tile])), c),))
        if power > 1 or tile.name in rest.symbols():
            raise ValueError(f"{e} is not linear in {tile.name}")
        parts[power].append(rest)
    return Affine(total(parts[0]), total(parts[1]))


#: Parts of a sum, by factor.
_Weighted: TypeAlias = dict[float, list[Affine]]


def _add(cycles: dict[Expr, _Weighted], along: Expr, weight: float, count: Affine) -> None:
    cycles.setdefault(along, {}).setdefault(six_digits(weight), []).append(count)


def _folded(by_weight: _Weighted) -> tuple[tuple[float, Affine], ...]:
    """Return the sum: the constant part, the constant per element of a tile, and other parts by weight."""
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
    """Round a figure as the generated code prints it, so that both compute with equal values."""
    return float(f"{figure:.6g}")
