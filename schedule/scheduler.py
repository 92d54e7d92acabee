"""The scheduler: HintGraph -> groups -> templates -> memory plans -> ScheduleResult.

Every template that is dropped leaves its reason in ``ScheduleResult.rejected``.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from autofuse.diagnostics import AutofuseError
from autofuse.implgraph.expr import ONE, ZERO, Expr, bounds, const, product
from autofuse.implgraph.expr_parser import parse
from autofuse.implgraph.frozen import replace
from autofuse.implgraph.graph import (
    AllocType,
    AxisType,
    Condition,
    Hardware,
    HintGraph,
    ImplGraph,
    Mem,
    Node,
    Position,
    TilingSpec,
)
from autofuse.implgraph.lowering import group_order_hazards, groups
from autofuse.implgraph.reduce_rows import REDUCES
from autofuse.schedule.alike import likeness
from autofuse.schedule.budget import check_budget, exceeds_budget
from autofuse.schedule.cache_hints import CacheHints, touched_bytes
from autofuse.schedule.cost_form import TICK_BITS, ticks
from autofuse.schedule.data_flow import DataFlow
from autofuse.schedule.ends import is_sink
from autofuse.schedule.layout import BLOCK
from autofuse.schedule.legalize import legalize
from autofuse.schedule.memory import MemoryPlan, plan_memory
from autofuse.schedule.picking import share_runs, tables
from autofuse.schedule.placement import Placed, alignment, place
from autofuse.schedule.rank import Ranking, in_order, modelled_cycles, select
from autofuse.schedule.reduction import place_reduction
from autofuse.schedule.rejection import TemplateRejectedError
from autofuse.schedule.result import Group, Rejected, ScheduleResult
from autofuse.schedule.row_operands import with_row_operands
from autofuse.schedule.scan import SCAN, place_scan, scanned_axes
from autofuse.schedule.solver import modelled_ticks
from autofuse.schedule.stagger import with_staggered_loops
from autofuse.schedule.templates import general, narrow, reduce, row, scan, transpose
from autofuse.schedule.tile_cost import TICK_SHIFT, UNLIMITED, chip_table
from autofuse.schedule.tiling_axes import Choice, GroupInput, Split
from autofuse.schedule.transposition import (
    copy_limits,
    is_relaid,
    rows_within,
    smaller,
)
from autofuse.schedule.workspace import place_workspaces
from autofuse.targets import TargetSpec

__all__ = ["schedule", "schedule_all"]

#: What the templates of groups cost, for groups that do the same to other tensors.
_Alike: TypeAlias = dict[Hashable, Ranking]

#: Templates kept per group when all sizes are known, and for a kernel of symbolic sizes.
MAX_STATIC, MAX_SYMBOLIC = 2, 5
#: What all tensors in GM have in common.
_GLOBAL, _GM, _AT_GM = AllocType.GLOBAL, Hardware.GM, Position.GM
#: Branches of one kernel at most; several groups multiply.
MAX_KEYS = 16
#: A form that could be faster by less than this part of what another one takes is not looked at.
LITTLE = 20


def schedule_all(hints: Sequence[HintGraph], target: TargetSpec) -> tuple[ScheduleResult, ...]:
    """One result per form of a graph: the host chooses for the sizes of a call.  Of known sizes only the best one.

    Args:
        hints: canonical graphs.  All but the first one may be dropped, with the reasons among what was rejected.
        target: the chip.

    Raises:
        AutofuseError: as :func:`schedule`, for the first form.
    """
    if len(hints) > 1 and not hints[0].symbols:
        return (_cheapest(hints, target),)
    (first,) = schedule(hints[0], target)
    others: list[ScheduleResult] = []
    rejected = list(first.rejected)
    for form in hints[1:]:
        found, why = _other(form, target, 1 + len(others))
        others += found
        rejected += why
    return (replace(first, rejected=tuple(rejected)), *others)


def _cheapest(hints: Sequence[HintGraph], target: TargetSpec) -> ScheduleResult:
    """The form of the least modelled time, the first of equals; the others are among what was rejected."""
    found: list[tuple[int, int, ScheduleResult]] = []
    rejected: list[Rejected] = []
    refused: list[AutofuseError] = []
    alike: _Alike = {}
    moved = _moved_ticks(hints[0], target)
    for number, form in enumerate(hints):
        least = min((f[0] for f in found), default=UNLIMITED)
        always = moved + len(_barriers(group_order_hazards(form))) * ticks(target.sync_all)
        if always >= least - least // LITTLE:
            reason = f"its barriers and GM alone take {always >> TICK_BITS} cycles"
            rejected.append(_dominated(number, reason))
            continue
        try:
            result = _scheduled(form, target, 0, alike)
        except AutofuseError as e:
            refused.append(e)
            rejected.append(_refused(number, e))
            continue
        cost = modelled_ticks(result, target)
        found.append((UNLIMITED if cost is None else cost, number, result))
    if not found:
        raise refused[0]
    least, best, taken = min(found, key=lambda f: f[:2])
    for cost, number, _ in found:
        if number != best:
            reason = f"modelled {cost >> TICK_BITS} cycles, form {best} takes {least >> TICK_BITS}"
            rejected.append(_dominated(number, reason))
    return replace(taken, rejected=(*taken.rejected, *rejected))


def _moved_ticks(hint: HintGraph, target: TargetSpec) -> int:
    """What GM takes at least for the inputs and outputs of a graph of known sizes, whatever its form."""
    chip = chip_table(target)
    given = {n.name for n in hint.ops("Data")}
    made = {n.inputs[0] for n in hint.ops("Output")}
    loaded: dict[str, int] = {}
    stored = 0
    for n in hint.nodes:
        is_stored = n.op == "Store" and n.name in made
        if is_stored or (n.op == "Load" and n.inputs[0] in given):
            nbytes = touched_bytes(n.y).value
            if is_stored:
                stored += nbytes
            else:
                # Loads of one input may be of the same elements.
                loaded[n.inputs[0]] = max(loaded.get(n.inputs[0], 0), nbytes)
    read = sum(loaded.values()) * chip.read_share
    return (read + stored * chip.write_share) >> TICK_SHIFT


def _other(
    form: HintGraph, target: TargetSpec, number: int
) -> tuple[tuple[ScheduleResult, ...], list[Rejected]]:
    """The result of a form that is not needed; or why there is none."""
    try:
        return schedule(form, target, result=number), []
    except AutofuseError as e:
        return (), [_refused(number, e)]


def _refused(number: int, why: AutofuseError) -> Rejected:
    d = why.diagnostics[0]
    return Rejected(0, f"form {number}", d.message, d.code)


def _dominated(number: int, why: str) -> Rejected:
    return Rejected(0, f"form {number}", f"dominated: {why}")


def schedule(hint: HintGraph, target: TargetSpec, *, result: int = 0) -> tuple[ScheduleResult, ...]:
    """All ways to realise ``hint`` that are worth a branch in the kernel; at present one result.

    Args:
        hint: a canonical graph.
        target: the chip.
        result: the number of the result.

    Raises:
        AutofuseError: AF3001 an op is not available, AF3002/AF3003/AF3004 no template fits (the notes name each
            buffer and the tile that would fit).
    """
    return (_scheduled(hint, target, result, {}),)


def _scheduled(hint: HintGraph, target: TargetSpec, result: int, alike: _Alike) -> ScheduleResult:
    """One way to realise ``hint``; ``alike``: the groups of other forms, some of which may be the same in this one."""
    parts = groups(hint)
    keep = _templates_per_group(hint, len(parts))
    late = _barriers(group_order_hazards(hint))
    hints = CacheHints(hint, target)
    rejected: list[Rejected] = []
    out: list[Group] = []
    spaces = place_workspaces(hint)
    for g in _group_inputs(hint, parts, spaces, target, result):
        ranking = Ranking(g)
        if len(parts) > 1:
            ranking = alike.setdefault((keep, likeness(g)), ranking)
        next_tensor = g.inputs + g.outputs + len(spaces)
        impls, dropped = _schedule_group(g, keep, next_tensor, ranking)
        impls = tuple(hints.given_to(i) for i in impls)
        rejected += dropped
        out.append(Group(g.group, impls, sync_before=g.group in late))
    return ScheduleResult(result, hint, _side_by_side(out), tuple(rejected))


def _group_inputs(
    hint: HintGraph,
    parts: Sequence[Sequence[Node]],
    spaces: Sequence[Node],
    target: TargetSpec,
    result: int,
) -> Iterator[GroupInput]:
    """What the templates of each group are made of; ``parts``: the nodes of the groups, ``spaces``: the workspaces."""
    inputs = sum(1 for _ in hint.ops("Data"))
    outputs = 1 + max((int(str(n.attrs["index"])) for n in hint.ops("Output")), default=-1)
    for index, nodes in enumerate(parts):
        legal = _in_gm(legalize(_with_ends(nodes, hint, spaces), hint, target), inputs, outputs)
        order = next(n.y.axis for n in legal if n.op == "Store")
        yield GroupInput(
            hint.name,
            result,
            index,
            hint.symbols,
            hint.axes,
            order,
            legal,
            target,
            inputs,
            _reduced_axes(legal, order),
            outputs,
        )


def _barriers(hazards: Sequence[tuple[int, int]]) -> set[int]:
    """The groups before which all cores meet: one barrier keeps all groups before it apart from all behind it."""
    found: set[int] = set()
    last = 0
    for later in sorted({b for _, b in hazards}):
        if any(a >= last for a, b in hazards if b == later):
            found.add(later)
            last = later
    return found


def _side_by_side(parts: Sequence[Group]) -> tuple[Group, ...]:
    """Groups between which the cores do not meet start on different cores: small ones then run at the same time.

    The last of them starts on core 0, each of the others behind the cores of the next one.
    """
    out: list[Group] = []
    for g, after in itertools.zip_longest(parts, parts[1:]):
        if after is not None and not after.sync_before:
            core = f"first_core_{g.index}"
            moved = (replace(i, tiling=replace(i.tiling, first_core=core)) for i in g.impls)
            g = replace(g, impls=tuple(moved))
        out.append(g)
    return tuple(out)


def _reduced_axes(nodes: Sequence[Node], order: Sequence[int]) -> tuple[int, ...]:
    """The axes that the reductions of a group reduce, or its running sums run along, in order."""
    named = {n.name: n for n in nodes}
    for n in nodes:
        if n.op == SCAN:
            return tuple(a for a in order if a in scanned_axes(n))
    gone = {
        a
        for n in nodes
        if n.op in REDUCES
        for a in set(named[n.inputs[0]].y.varies()) - set(n.y.varies())
    }
    return tuple(a for a in order if a in gone)


def _templates_per_group(hint: HintGraph, count: int) -> int:
    """Templates per group so that all combinations stay within MAX_KEYS."""
    keep = MAX_SYMBOLIC if hint.symbols else MAX_STATIC
    while keep > 1 and keep**count > MAX_KEYS:
        keep -= 1
    return keep


def _with_ends(nodes: Sequence[Node], hint: HintGraph, spaces: Sequence[Node]) -> list[Node]:
    """The group's nodes between the Data nodes that feed it and the Output nodes that it feeds.

    A Workspace that it reads has no inputs here: what writes it is in another group.
    """
    inside = {n.name for n in nodes}
    used = {i for n in nodes for i in n.inputs}
    data = [n for n in hint.ops("Data") if n.name in used and n.name not in inside]
    outputs = [n for n in hint.ops("Output") if set(n.inputs) & inside and n.name not in inside]
    pieces = Counter(n.attrs["index"] for n in hint.ops("Output"))
    outputs = [
        n if count == 1 else replace(n, attrs={**n.attrs, "pieces": count})
        for n in outputs
        for count in [pieces[n.attrs["index"]]]
    ]
    data += [replace(n, inputs=()) for n in spaces if n.name in used]
    for n in spaces:
        stores = tuple(i for i in n.inputs if i in inside)
        attrs = {**n.attrs, "pieces": len(n.inputs)} if len(n.inputs) > 1 else n.attrs
        outputs += [replace(n, inputs=stores, attrs=attrs)] if stores else []
    return [*data, *nodes, *outputs]


def _schedule_group(
    g: GroupInput, keep: int, next_tensor: int, ranking: Ranking
) -> tuple[tuple[ImplGraph, ...], list[Rejected]]:
    rejected: list[Rejected] = []
    made: list[tuple[int, ImplGraph]] = []
    taken: set[str] = set()
    tries = _tries(g)
    # Most groups are tried with several tilings.
    placing = {id(h): _placing(h) for h in {id(h): h for h, _ in tries}.values()}
    for number, (group, choice) in enumerate(tries):
        try:
            impl = ranking.dropped(number, g, choice.suffix)
            impl = impl or _realise(group, choice, placing[id(group)], next_tensor)
        except TemplateRejectedError as why:
            rejected.append(Rejected(g.group, _title(group, choice), str(why), why.code))
            continue
        if impl.name in taken:
            # Ids of axes are those of one template: another one may have the same for other axes.
            tiled = next(a.name for a in impl.axes if a.id == impl.tiling.tile_axis)
            parts = (impl.suffix, f"by_{tiled}")
            impl = replace(impl, suffix="_".join(p for p in parts if p))
        taken.add(impl.name)
        made.append((number, impl))
    if not made:
        raise _nothing_fits(g, rejected)
    ranked = ranking.of(made, keep)
    chosen = select(ranked, keep, symbolic=bool(g.symbols), alone=keep == MAX_SYMBOLIC)
    best = ranked[0]
    for cycles, number, impl in ranked:
        if impl not in chosen:
            if impl.suffix == tries[number][1].suffix:  # else an axis of this group is in its name
                ranking.drop(number, impl)
            rejected.append(
                Rejected(
                    g.group,
                    impl.name,
                    f"dominated: modelled {cycles:.0f} cycles at the sample size, "
                    f"{best.impl.name} takes {best.cycles:.0f}",
                )
            )
    return in_order(chosen, ranked), rejected


def _tries(g: GroupInput) -> list[tuple[GroupInput, Choice]]:
    """What the template families propose."""
    if g.scans:
        return scan.choices(g)
    if g.reduced:
        loops = reduce.choices(g) + reduce.shared_choices(g) + reduce.block_choices(g)
        return loops + transpose.reduce_choices(g) + narrow.choices(g)
    tries = [(g, c) for c in general.choices(g) + row.choices(g)]
    packed = row.packed_choice(g)
    tries += [] if packed is None else [packed]
    tries += general.shared_choices(g)
    return tries + transpose.choices(g) + narrow.choices(g)


def _title(g: GroupInput, c: Choice) -> str:
    tiled = next(a.name for a in g.axes if a.id == g.order[c.position])
    return f"{c.template}{'_' + c.suffix if c.suffix else ''} (tile {tiled})"


#: Buffers of a queue, and whether results take over those of loads: what is tried, in this order.  Where tiles can be
#: made smaller instead, sharing would save no pass over GM.
_BUFFERING = ((2, False), (1, False))
_BUFFERING_OF_ROWS = ((2, False), (2, True), (1, False), (1, True))
#: Steps of a tile that fit UB: up to so many, a plan with room for more of them is looked at as well.
_FEW = 12


def _placing(g: GroupInput) -> Callable[[Choice], Placed]:
    """What places the templates of a group."""
    if g.scans:
        return partial(place_scan, g)
    return partial(place_reduction, DataFlow(g)) if g.reduced else partial(place, g)


def _realise(
    g: GroupInput, choice: Choice, placing: Callable[[Choice], Placed], next_tensor: int
) -> ImplGraph:
    """One template with its memory plan: where two buffers of each queue do not fit, fewer.

    In a tile that holds whole rows, results take over the buffers of loads before single buffers are tried.  What
    the banks of UB ask for is given up before any of that.

    Raises:
        TemplateRejectedError: with the reason.
    """
    template = _Template(g, choice, placing(choice), next_tensor)
    if not g.target.has_datacopypad:
        _check_block_copies(g, template.placed)
    if choice.tight:
        return _for_long_rows(template, template.planned([(1, True)]))
    whole_rows = choice.all_load or choice.template == row.NAME
    return template.planned(_BUFFERING_OF_ROWS if whole_rows else _BUFFERING)


def _for_long_rows(template: _Template, impl: ImplGraph) -> ImplGraph:
    """The template, for sizes for which it would not fit with two buffers for each queue.

    Raises:
        TemplateRejectedError: there are no such sizes.
    """
    spec = template.planned([(2, False)]).tiling
    used = spec.ub.substitute({spec.tile_size: const(spec.granule)})
    ranges = {s.name: (s.min, s.max) for s in impl.symbols}
    if bounds(used, ranges)[1] <= spec.ub_limit:
        raise TemplateRejectedError("two buffers for each queue fit, whatever the sizes are")
    long = Condition(used, at_least=spec.ub_limit + 1)
    conditions = (*impl.tiling.conditions, long)
    return replace(impl, tiling=replace(impl.tiling, conditions=conditions))


def _check_block_copies(g: GroupInput, placed: Placed) -> None:
    """Chips without DataCopyPad move whole 32-byte units: every row, and so every tail, must be such a multiple.

    Tiles are multiples of 256 bytes, so a row that is a multiple of 32 bytes leaves such a tail.
    """
    for n in (*placed.hoisted, *placed.looped):
        if n.op not in ("Load", "Store"):
            continue
        axes = n.y.vectorized_axis
        if n.y.vectorized_strides[-1:] not in ((), (ONE,)):
            raise TemplateRejectedError(
                f"{g.target.name} has no DataCopyPad: {n.name} would not be moved in whole blocks"
            )
        row = g.size(g.order[-1]) if axes and axes[-1] == placed.split.vector[-1] else const(1)
        elements = row.as_int()
        if elements is None or elements * n.y.dtype.itemsize % BLOCK:
            raise TemplateRejectedError(
                f"{g.target.name} has no DataCopyPad: rows of {row} {n.y.dtype} in {n.name} are not known "
                f"to be a multiple of {BLOCK} bytes"
            )


class _Template:
    """A placed template: with its memory plan it is an ImplGraph.

    Several plans are tried; what does not depend on them is found once, and nodes are made for the one that fits.
    """

    def __init__(self, g: GroupInput, choice: Choice, placed: Placed, next_tensor: int) -> None:
        self.g, self.choice, self.next_tensor = g, choice, next_tensor
        hoisted, looped = tables(share_runs(placed.hoisted), share_runs(placed.looped))
        taking = with_row_operands(hoisted, looped, g.target.arch)
        self.placed = replace(placed, hoisted=tuple(hoisted), looped=taking)
        self._known_tiling: TilingSpec | None = None

    def planned(self, ways: Sequence[tuple[int, bool]]) -> ImplGraph:
        """The template with the first plan that fits, each with and without what the banks of UB ask for.

        Args:
            ways: buffers of a queue, and whether results take over those of loads.

        Raises:
            TemplateRejectedError: none of them fits; why the last one does not.
        """
        *others, last = self._tried(ways)
        for way in others:
            with suppress(TemplateRejectedError):
                return self._of_more_rows(self._plan(*way), way, ways)
        return self._plan(*last)

    def _of_more_rows(
        self, impl: ImplGraph, way: tuple[int, bool, bool], ways: Sequence[tuple[int, bool]]
    ) -> ImplGraph:
        """The template with results in the buffers of loads, where tiles of more rows make up for what waits then.

        That can be where a few rows fill UB, so that heads of calls take much of the time.
        """
        buf_num, share, banks = way
        spec = impl.tiling
        if share or (buf_num, True) not in ways or spec.ub.symbols() != {spec.tile_size}:
            return impl
        if spec.ub.evaluate({spec.tile_size: _FEW * spec.granule}) <= spec.ub_limit:
            return impl
        with suppress(TemplateRejectedError):
            other = self._plan(buf_num, True, banks)
            cycles = modelled_cycles(impl, self.g.target)
            if modelled_cycles(other, self.g.target) < cycles - cycles / LITTLE:
                return other
        return impl

    def _tried(self, ways: Sequence[tuple[int, bool]]) -> list[tuple[int, bool, bool]]:
        plans = [(buf_num, share, banks) for buf_num, share in ways for banks in (True, False)]
        return plans[-1:] if self._never_fits() else plans  # the last one for the reason

    def _plan(self, buf_num: int, share: bool, banks: bool) -> ImplGraph:
        target = self.g.target
        plan = plan_memory(
            self.placed, target, buf_num, share=share, banks=banks, cycles=self._cycles
        )
        return self._assemble(plan)

    def _cycles(self, plan: MemoryPlan) -> float:
        """Modelled cycles with a plan; infinite where it does not fit."""
        if plan.ub.symbols() - {self._tiling.tile_size}:
            return math.inf  # rows of any length: the longest ones would not fit with a larger plan
        try:
            return modelled_cycles(self._assemble(plan), self.g.target)
        except TemplateRejectedError:
            return math.inf

    def _never_fits(self) -> bool:
        """Whether it is certain that no plan fits."""
        try:
            return exceeds_budget(self.placed, self._tiling, self.g.symbols, self.g.target)
        except TemplateRejectedError:
            return True

    def _assemble(self, plan: MemoryPlan) -> ImplGraph:
        g, choice, placed = self.g, self.choice, self.placed
        split = placed.split
        tiling = replace(self._tiling, ub=plan.ub)
        check_budget(tiling, plan.buffers, g.symbols)
        y_axis = choice.y_axis if choice.y_axis is not None else split.tiled
        impl = ImplGraph(
            graph=g.graph,
            result=g.result,
            group=g.group,
            template=choice.template,
            suffix=choice.suffix,
            y_axis=split.outer[-1] if split.tile_reduced else y_axis,
            r_axis=split.reduce_loop,
            symbols=g.symbols,
            axes=split.axes,
            nodes=(*placed.structural, *plan.nodes(self.next_tensor), *placed.outputs),
            buffers=plan.buffers,
            tiling=tiling,
        )
        return with_staggered_loops(impl, g.target)

    @property
    def _tiling(self) -> TilingSpec:
        """The tiling; the UB sum is that of a plan, and 0 here.

        Raises:
            TemplateRejectedError: a size that is known breaks a condition.
        """
        if self._known_tiling is None:
            self._known_tiling = self._tiled()
        return self._known_tiling

    def _tiled(self) -> TilingSpec:
        g, choice, placed = self.g, self.choice, self.placed
        split = placed.split
        last = g.size(g.order[-1])
        packed = choice.y_axis is not None
        conditions = _conditions(g, placed)
        more, longest = copy_limits(g, (*placed.hoisted, *placed.looped), split)
        if choice.shortest > 1:
            more = [*more, Condition(split.sizes[split.tiled], at_least=choice.shortest)]
        conditions += [c for c in more if c not in conditions]
        _check_known(more)
        if split.inner and not choice.padded and not packed and not last.is_const:
            conditions.append(Condition(last, alignment(g.nodes, g.order[-1])))
        middle = product(placed.layout.split.sizes[a] for a in split.inner[:-1])
        rows_limited = bool(split.inner) and not packed
        tile_max = rows_within(g.target.dma_block_count_max, middle) if rows_limited else None
        row_elements = product(placed.layout.extent(a) for a in split.vector if a != split.tile_in)
        return TilingSpec(
            tile_axis=split.tiled,
            tile_size=str(split.t),
            block_size=str(split.b),
            extent=split.sizes[split.tiled],
            outer=product(split.sizes[a] for a in split.outer),
            granule=math.lcm(_granule(g, placed), choice.shortest),
            tile_max=smaller(smaller(tile_max, longest), _own_limit(choice)),
            row_elements=row_elements,
            ub=ZERO,
            ub_limit=g.target.ub_usable,
            conditions=tuple(conditions),
            rounded=split.tile_in in placed.layout.pitches,
            reduce_tiles=split.tile_reduced,
            reduce_outer=product(split.sizes[a] for a in split.summed),
        )


def _own_limit(choice: Choice) -> Expr | None:
    return None if choice.longest is None else const(choice.longest)


def _conditions(g: GroupInput, placed: Placed) -> list[Condition]:
    """What must hold at run time for a tile with reduced axes inside: none is empty, rows fit one DMA command.

    Raises:
        TemplateRejectedError: a size that is known breaks a condition.
    """
    split, out = placed.split, list[Condition]()
    # An index is brought inside its dimension, which takes one that is not empty.
    extents = dict.fromkeys(
        parse(str(n.attrs["extent"])) for n in g.nodes if len(n.inputs) > 1 and n.op == "Load"
    )
    out += [
        Condition(e, at_least=1)
        for e in extents
        if bounds(e, {s.name: (s.min, s.max) for s in g.symbols})[0] < 1
    ]
    if not g.reduced:
        return out
    out += _enough_rows(g, split)
    ranges = {s.name: (s.min, s.max) for s in g.symbols}
    out += [
        Condition(split.sizes[a], at_least=1)
        for a in split.vector
        if a in g.reduced and not g.scans and bounds(split.sizes[a], ranges)[0] < 1
    ]
    most = g.target.dma_block_count_max
    for n in (*placed.hoisted, *placed.looped):
        rows = n.y.vectorized_axis[:-1]
        if n.op not in ("Load", "Store") or split.tile_in in rows:
            continue
        count = product(split.sizes[a] for a in rows)
        if bounds(count, ranges)[1] > most:
            out.append(Condition(count, at_most=most))
    _check_known(out)
    return list(dict.fromkeys(out))


def _enough_rows(g: GroupInput, split: Split) -> list[Condition]:
    """Where rows of one piece of the columns are a loop: that they fill it, and that they are long."""
    cut = [a for a in split.axes if a.id in split.summed and a.type is AxisType.TILE_IN]
    out = [Condition(split.sizes[a.origin[0]], at_least=a.size.value) for a in cut]
    out += [Condition(split.sizes[split.tiled], at_least=general.LONG)] if cut else []
    return [c for c in out if not c.value.is_const]


def _check_known(conditions: Sequence[Condition]) -> None:
    """Raises TemplateRejectedError if a size that is known breaks a condition."""
    for c in conditions:
        if c.value.is_const and not c.holds({}):
            raise TemplateRejectedError(f"it does not hold that {c.text()}")


def _granule(g: GroupInput, placed: Placed) -> int:
    """What tiles are multiples of.

    Rows along the tiled axis that start at 32-byte addresses in UB are multiples of that.  With the innermost axis
    tiled it is 256 bytes of the narrowest tensor: tiles then start at such distances in GM.
    """
    split = placed.split
    rows = [
        n
        for n in placed.looped
        if n.op in ("Load", "Store") and n.y.vectorized_axis[-1:] == (split.tile_in,)
    ]
    moved = bool(split.inner) and any(is_relaid(n, split.vector) for n in rows)
    if split.tile_in in placed.layout.pitches or moved:
        return alignment(g.nodes, split.tiled)
    return 1 if split.inner else 8 * alignment(g.nodes, g.order[-1])


def _in_gm(nodes: Sequence[Node], inputs: int, outputs: int) -> tuple[Node, ...]:
    """The nodes of a group, of which those that stand for GM, and the Stores, know their tensor there.

    Args:
        nodes: with the Data and Output nodes that they touch.
        inputs: number of inputs of the kernel, which are the first tensors.
        outputs: number of its outputs, which follow; workspaces come next.
    """
    first = {"Data": 0, "Output": inputs, "Workspace": inputs + outputs}
    found = {
        n.name: Mem(first[n.op] + int(str(n.attrs["index"])), _GLOBAL, _GM, _AT_GM)
        for n in nodes
        if n.op in first
    }
    found |= {store: found[n.name] for n in nodes if is_sink(n) for store in n.inputs}
    return tuple(
        replace(n, y=replace(n.y, mem=found[n.name])) if n.name in found else n for n in nodes
    )


_HINTS = {
    "AF3002": "another target may have what is missing here; the notes say what that is",
    "AF3003": "split the graph into smaller groups, or cut it where the fewest tensors are alive",
    "AF3004": "split the graph into smaller groups, or cut it where the fewest tensors are alive",
}


def _nothing_fits(g: GroupInput, rejected: Sequence[Rejected]) -> AutofuseError:
    """The error has the code of the first template, which asks for the least."""
    return AutofuseError.of(
        rejected[0].code,
        f"no template fits group {g.group} of {g.graph} on {g.target.name}",
        hint=_HINTS[rejected[0].code],
        notes=[f"{r.template}: {r.reason}" for r in rejected],
    )
