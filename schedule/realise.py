"""Realisation of one template of a group: its nodes, a memory plan that fits, its conditions.

Falls back from double buffering if it does not fit; tiles that hold whole rows have further plans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress

from autofuse.base.wording import Wording
from autofuse.implgraph.expr.bounds import bounds, settled
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, const, divide_exact, product
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import (
    AxisType,
    Condition,
    ImplGraph,
    Node,
    TileLength,
    TilingSpec,
)
from autofuse.schedule.axes.rejection import TemplateRejectedError, UnmovedRow
from autofuse.schedule.axes.tiling_axes import Candidate, GroupInput, Padding
from autofuse.schedule.cost.stagger import with_staggered_loops
from autofuse.schedule.legal.ends import is_sink, is_source
from autofuse.schedule.memory.budget import check_budget, exceeds_budget
from autofuse.schedule.memory.memory_plan import MemoryPlan, plan_memory
from autofuse.schedule.placement.copied import in_whole_blocks
from autofuse.schedule.placement.late_casts import with_late_casts
from autofuse.schedule.placement.picking import is_run, share_runs, tables
from autofuse.schedule.placement.placement import Placed, alignment
from autofuse.schedule.placement.row_operands import with_row_operands
from autofuse.schedule.placement.scalars import is_copied, with_scalars
from autofuse.schedule.placement.taking import check_takes
from autofuse.schedule.placement.transposition import (
    copy_limits,
    is_relaid,
    rows_within,
    smaller,
)
from autofuse.schedule.rank import modelled_cycles
from autofuse.schedule.search.costs import Costs

__all__ = ["Template"]

#: Plans to try, in this order: (buffers per queue, results take over the buffers of loads).  Where tiles can be made
#: smaller instead, sharing would save no pass over GM.
_BUFFERING = ((2, False), (1, False))
_BUFFERING_OF_ROWS = ((2, False), (2, True), (1, False), (1, True))
#: With at most this many steps of a tile in UB, also try a plan with room for more.
_FEW = 12
#: A further plan must save more than 1/20 of the time.
_GAIN = 20


def _with_whole_blocks(g: GroupInput, placed: Placed) -> Placed:
    """Return the template with short rows loaded as whole blocks where their tensor goes on."""
    ranges = {s.name: (s.min, s.max) for s in g.symbols}
    hoisted, looped = (
        tuple(
            [in_whole_blocks(n, placed.split.sizes.__getitem__, g.target.arch, ranges) for n in ns]
        )
        for ns in (placed.hoisted, placed.looped)
    )
    return replace(placed, hoisted=hoisted, looped=looped)


def _check_block_copies(g: GroupInput, placed: Placed) -> None:
    """Check that rows are whole 32-byte units, and so every tail, as chips without DataCopyPad require.

    Tiles are multiples of blocks too, so rows of whole blocks leave tails of whole blocks.
    """
    ends = {n.name: n for n in g.nodes if is_source(n)}
    sinks = {i: n for n in g.nodes if is_sink(n) for i in n.inputs}
    found: list[UnmovedRow] = []
    for n in (*placed.hoisted, *placed.looped):
        if not is_copied(n):
            continue
        row = _odd_row(n, placed)
        if row != 0:
            end = sinks[n.name] if n.op == "Store" else ends[n.inputs[0]]
            found.append(UnmovedRow(end.op, end.number("index"), n.origin, n.y.dtype, row))
    if found:
        rows = tuple(dict.fromkeys(found))
        listed = ", ".join("{}" for _ in rows)
        template = f"{{}} moves whole blocks, and {listed} may not be whole blocks"
        words = (r.words for r in rows)
        raise TemplateRejectedError(Wording(template, g.target.name, *words), rows=rows)


def _odd_row(n: Node, placed: Placed) -> Expr | None:
    """Return the elements of a copy's row that is not known to be whole blocks; 0: all are; None: single elements."""
    axes, split = n.y.vectorized_axis, placed.split
    if not axes:
        return ONE
    if n.y.vectorized_strides[-1] != 1:
        return None
    stride = dict(zip(n.y.axis, n.y.strides, strict=True))[axes[-1]]
    if stride != 1 and not (stride == -1 and is_run(n)):
        return ONE
    # A tile is whole blocks due to its granule; so is the remainder of an axis in the last tile.
    axis = split.axes[split.tiled if axes[-1] == split.tile_in else axes[-1]]
    lengths = [axis.size]
    while axis.type is AxisType.TILE_IN:
        axis = split.axes[axis.origin[0]]
        lengths.append(axis.size)
    odd = (e for e in lengths if not placed.layout.in_blocks(e * n.y.dtype.itemsize))
    return next(odd, ZERO)


class Template:
    """A placed template; with a memory plan it becomes an ImplGraph.

    Several plans are tried; plan-independent work is done once, and nodes are made for the plan that fits.
    """

    def __init__(
        self,
        g: GroupInput,
        candidate: Candidate,
        placed: Placed,
        next_tensor: int,
        costs: Costs,
        *,
        ready: bool = False,
    ) -> None:
        self.g, self.candidate, self.next_tensor, self.costs = g, candidate, next_tensor, costs
        if not ready:
            hoisted, looped = tables(share_runs(placed.hoisted), share_runs(placed.looped))
            taking = with_row_operands(hoisted, looped, g.target.arch)
            placed = _with_whole_blocks(g, replace(placed, hoisted=tuple(hoisted), looped=taking))
        self.placed = placed = with_scalars(placed, g.target.arch)
        if not ready:
            check_takes((*placed.hoisted, *placed.looped), placed.layout)
        if not (ready or g.target.arch.has_datacopypad):
            _check_block_copies(g, placed)
        self._known_tiling: TilingSpec | None = None

    def in_tiles(self) -> ImplGraph:
        """Return the template with double buffering, or with single buffering if that does not fit.

        Conflict-free banks are given up before that.

        Raises:
            TemplateRejectedError: with the reason.
        """
        return self.planned(_BUFFERING)

    def of_rows(self) -> ImplGraph:
        """Return a template with whole rows in a tile: sharing buffers of loads is tried before single buffering.

        If double buffering does not fit, a template that keeps data shared by rows as loaded is tried as well.

        Raises:
            TemplateRejectedError: with the reason.
        """
        try:
            impl = self.planned(_BUFFERING_OF_ROWS)
        except TemplateRejectedError:
            late = self.with_late_casts()
            if late is not None:
                with suppress(TemplateRejectedError):
                    return late.planned(_BUFFERING_OF_ROWS)
            raise
        spec = impl.tiling
        single = all(b.buf_num == 1 for b in impl.buffers)
        late = (
            self.with_late_casts() if single and spec.ub.symbols() == {spec.opened.symbol} else None
        )
        if late is None:
            return impl
        return self.less(impl, lambda: late.planned(_BUFFERING_OF_ROWS))

    def for_long_rows(self) -> ImplGraph:
        """Return the template with as few buffers as possible, for sizes at which double buffering would not fit.

        Raises:
            TemplateRejectedError: it does not fit, or there are no such sizes.
        """
        impl = self.planned([(1, True)])
        spec = self.planned([(2, False)]).tiling
        used = spec.ub.substitute({spec.opened.symbol: const(spec.opened.granule)})
        ranges = {s.name: (s.min, s.max) for s in impl.symbols}
        if bounds(used, ranges)[1] <= spec.ub_limit:
            raise TemplateRejectedError("double buffering always fits")
        long = Condition(used, at_least=spec.ub_limit + 1)
        conditions = (*impl.tiling.conditions, long)
        return replace(impl, tiling=replace(impl.tiling, conditions=conditions))

    def with_late_casts(self) -> Template | None:
        """Return the template with data shared by all tiles kept as loaded; None if that saves nothing."""
        placed = with_late_casts(self.placed)
        if placed is None:
            return None
        return Template(self.g, self.candidate, placed, self.next_tensor, self.costs, ready=True)

    def planned(self, ways: Sequence[tuple[int, bool]]) -> ImplGraph:
        """Return the template with the first plan that fits; each is tried with and without conflict-free banks.

        The last one is also tried with as few queues as possible.

        Args:
            ways: (buffers per queue, results take over the buffers of loads).

        Raises:
            TemplateRejectedError: none of them fits; gives the reason for the last one.
        """
        *others, last = self._tried(ways)
        for way in others:
            with suppress(TemplateRejectedError):
                return self._of_more_rows(self._plan(*way), way, ways)
        try:
            return self._plan(*last)
        except TemplateRejectedError:
            if not self._never_fits():
                with suppress(TemplateRejectedError):
                    return self._plan(*last, few=True)
            raise

    def _of_more_rows(
        self, impl: ImplGraph, way: tuple[int, bool, bool], ways: Sequence[tuple[int, bool]]
    ) -> ImplGraph:
        """Return the template with results in buffers of loads, if tiles with more rows make up for the added waits.

        That is possible if a few rows fill UB, so that call heads take much of the time.
        """
        buf_num, share, banks = way
        spec = impl.tiling
        if share or (buf_num, True) not in ways or spec.ub.symbols() != {spec.opened.symbol}:
            return impl
        if spec.ub.evaluate({spec.opened.symbol: _FEW * spec.opened.granule}) <= spec.ub_limit:
            return impl
        return self.less(impl, lambda: self._plan(buf_num, True, banks))

    def less(self, impl: ImplGraph, other: Callable[[], ImplGraph]) -> ImplGraph:
        """Return a further plan if one is sufficiently faster."""
        with suppress(TemplateRejectedError):
            made = other()
            cycles = modelled_cycles(impl, self.costs)
            if modelled_cycles(made, self.costs) < cycles - cycles / _GAIN:
                return made
        return impl

    def _tried(self, ways: Sequence[tuple[int, bool]]) -> list[tuple[int, bool, bool]]:
        plans = [(buf_num, share, banks) for buf_num, share in ways for banks in (True, False)]
        return plans[-1:] if self._never_fits() else plans  # the last one, for the reason

    def _plan(self, buf_num: int, share: bool, banks: bool, *, few: bool = False) -> ImplGraph:
        target = self.g.target
        return self._assemble(
            plan_memory(self.placed, target, buf_num, share=share, banks=banks, few=few)
        )

    def _never_fits(self) -> bool:
        """Return True if certainly no plan fits."""
        try:
            return exceeds_budget(self.placed, self._tiling, self.g.symbols, self.g.target)
        except TemplateRejectedError:
            return True

    def _assemble(self, plan: MemoryPlan) -> ImplGraph:
        g, candidate, placed = self.g, self.candidate, self.placed
        split = placed.split
        ranges = {s.name: (s.min, s.max) for s in g.symbols}
        ranges[self._tiling.opened.symbol] = (1, 1 << 62)
        tiling = replace(self._tiling, ub=settled(plan.ub, ranges))
        buffers = tuple([replace(b, nbytes=settled(b.nbytes, ranges)) for b in plan.buffers])
        check_budget(tiling, buffers, (*placed.hoisted, *placed.looped), g.symbols)
        impl = ImplGraph(
            graph=g.graph,
            result=g.result,
            group=g.group,
            template=candidate.template,
            suffix=candidate.suffix,
            y_axis=split.outer[-1] if split.tile_reduced else split.tiled,
            r_axis=split.reduce_loop,
            symbols=g.symbols,
            axes=split.axes,
            nodes=(*placed.structural, *plan.nodes(self.next_tensor), *placed.outputs),
            buffers=buffers,
            tiling=tiling,
        )
        return with_staggered_loops(impl, g.target)

    @property
    def _tiling(self) -> TilingSpec:
        """The tiling; its UB sum is 0 here and comes from a plan.

        Raises:
            TemplateRejectedError: a known size violates a condition.
        """
        if self._known_tiling is None:
            self._known_tiling = self._tiled()
        return self._known_tiling

    def _tiled(self) -> TilingSpec:
        g, candidate, placed = self.g, self.candidate, self.placed
        split = placed.split
        last = g.size(g.order[-1])
        # Loads make the whole tile one run.
        packed = candidate.permuting and candidate.padding is Padding.NONE
        conditions = _conditions(g, placed, candidate.conditions)
        more, longest = copy_limits(g, (*placed.hoisted, *placed.looped), split)
        lengths = candidate.lengths
        if lengths.shortest > 1:
            more = [*more, Condition(split.sizes[split.tiled], at_least=lengths.shortest)]
        conditions += [c for c in more if c not in conditions]
        _check_known(more)
        if split.inner and candidate.padding is Padding.NONE and not packed and not last.is_const:
            conditions.append(Condition(last, alignment(g, g.order[-1])))
        middle = product(placed.layout.split.sizes[a] for a in split.inner[:-1])
        rows_limited = bool(split.inner) and not packed
        tile_max = rows_within(g.target.arch.dma_block_count_max, middle) if rows_limited else None
        row_elements = product(placed.layout.extent(a) for a in split.vector if a != split.tile_in)
        length = TileLength(
            axis=split.tiled,
            symbol=str(split.t),
            extent=split.sizes[split.tiled],
            granule=math.lcm(_granule(g, placed), lengths.unit),
            most=smaller(
                smaller(tile_max, longest), None if lengths.most is None else const(lengths.most)
            ),
            rounded=split.tile_in in placed.layout.pitches,
        )
        return TilingSpec(
            lengths=(length,),
            block_size=str(split.b),
            outer=product(split.sizes[a] for a in split.outer),
            row_elements=row_elements,
            ub=ZERO,
            ub_limit=g.target.ub_usable,
            conditions=tuple(conditions),
            reduce_tiles=split.tile_reduced,
            reduce_outer=product(split.sizes[a] for a in split.summed),
        )


def _conditions(g: GroupInput, placed: Placed, own: Sequence[Condition]) -> list[Condition]:
    """Return the run-time conditions: indexed and reduced axes are nonempty, rows fit one DMA command.

    Raises:
        TemplateRejectedError: a known size violates a condition.
    """
    split, out = placed.split, list[Condition]()
    # Clamping an index requires a nonempty dimension; with nothing to load there is no such condition.
    extents = dict.fromkeys(
        n.size("extent")
        for n in g.nodes
        if len(n.inputs) > 1
        and n.op == "Load"
        and divide_exact(product(n.y.repeats), n.size("extent")) is None
    )
    out += [
        Condition(e, at_least=1)
        for e in extents
        if bounds(e, {s.name: (s.min, s.max) for s in g.symbols})[0] < 1
    ]
    if not g.reduced:
        return out
    out += [c for c in own if not c.value.is_const]
    ranges = {s.name: (s.min, s.max) for s in g.symbols}
    out += [
        Condition(split.sizes[a], at_least=1)
        for a in split.vector
        if a in g.reduced and not g.scans and bounds(split.sizes[a], ranges)[0] < 1
    ]
    most = g.target.arch.dma_block_count_max
    for n in (*placed.hoisted, *placed.looped):
        rows = n.y.vectorized_axis[:-1]
        if n.op not in ("Load", "Store") or split.tile_in in rows:
            continue
        count = product(split.sizes[a] for a in rows)
        if bounds(count, ranges)[1] > most:
            out.append(Condition(count, at_most=most))
    _check_known(out)
    return list(dict.fromkeys(out))


def _check_known(conditions: Sequence[Condition]) -> None:
    """Raise TemplateRejectedError if a known size violates a condition."""
    for c in conditions:
        if c.value.is_const and not c.holds({}):
            raise TemplateRejectedError(Wording("requires that {}", c.text()))


def _granule(g: GroupInput, placed: Placed) -> int:
    """Return the number that tile lengths are multiples of.

    Rows along the tiled axis that start at 32-byte addresses in UB are multiples of 32 bytes.  With the innermost axis
    tiled it is a repeat of the narrowest tensor, so that tiles start at multiples of that in GM.
    """
    split = placed.split
    rows = [
        n
        for n in placed.looped
        if n.op in ("Load", "Store") and n.y.vectorized_axis[-1:] == (split.tile_in,)
    ]
    moved = bool(split.inner) and any(is_relaid(n, split.vector) for n in rows)
    if split.tile_in in placed.layout.pitches or moved:
        return alignment(g, split.tiled)
    if split.inner and not g.target.arch.has_datacopypad:
        # A chip that moves only whole blocks needs tiles of whole blocks along contiguous axes.
        block = g.target.arch.block_bytes
        return max((block // n.y.dtype.itemsize for n in rows if is_copied(n)), default=1)
    repeat = g.target.arch.vector_bytes // g.target.arch.block_bytes
    return 1 if split.inner else repeat * alignment(g, g.order[-1])
