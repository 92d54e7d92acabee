"""The scheduler: HintGraph -> groups -> templates -> memory plans -> ScheduleResult.

``ScheduleResult.rejected`` records the reason for every dropped template.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.base.observing import Watch, named, told
from autofuse.base.wording import Wording
from autofuse.implgraph.expr.expression import ONE
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import (
    AllocType,
    Hardware,
    HintGraph,
    Mem,
    Node,
    Position,
)
from autofuse.implgraph.lowering.lowering import group_order_hazards, groups
from autofuse.implgraph.ops.rows.reductions import PART, REDUCES
from autofuse.schedule.axes.rejection import (
    TemplateRejectedError,
    UnmovedRow,
    UnmovedRowsError,
)
from autofuse.schedule.axes.result import Group, Rejected, ScheduleResult, Verdict
from autofuse.schedule.axes.tile_limits import fits_every_size
from autofuse.schedule.axes.tiling_axes import Candidate, GroupInput, in_parts, plain
from autofuse.schedule.cost.cache_hints import CacheHints, touched_bytes
from autofuse.schedule.legal.ends import is_sink
from autofuse.schedule.legal.legalize import Legalizer
from autofuse.schedule.memory.workspace import place_workspaces
from autofuse.schedule.placement.scan import SCAN, scanned_axes
from autofuse.schedule.rank import (
    Kept,
    Made,
    Tried,
    form_times,
    in_order,
    modelled_cycles,
    select,
    slower_words,
    totals,
    why_left_out,
)
from autofuse.schedule.realise import Template
from autofuse.schedule.search.bound import Chip
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.grid import Point, grid
from autofuse.schedule.templates.family import Family, Placing
from autofuse.schedule.templates.invariant import (
    invariant_families,
    is_invariant,
    with_fixed_order,
)
from autofuse.schedule.templates.table import FAMILIES
from autofuse.targets import TargetSpec

__all__ = ["schedule", "schedule_all"]

#: Memory description shared by all tensors in GM.
_GLOBAL, _GM, _AT_GM = AllocType.GLOBAL, Hardware.GM, Position.GM
#: Skip forms whose lower bound is above the best or less than 1/``LITTLE`` below it.
LITTLE = 20


def schedule_all(
    hints: Sequence[HintGraph],
    target: TargetSpec,
    costs: Costs | None = None,
    watch: Watch | None = None,
) -> tuple[ScheduleResult, ...]:
    """Return one result per form of a graph, for the host to choose from; with known sizes only the best one.

    Args:
        hints: canonical graphs.  All but one may be dropped, with reasons in ``rejected``.
        target: the chip.
        costs: cost memo of this build; a new one by default.
        watch: notified of legalisation, and of the candidates of every group.

    Raises:
        AutofuseError: as :func:`schedule`, for the first form if none can be scheduled.
    """
    costs = costs or Costs(target)
    if not hints[0].symbols:
        return (_cheapest(hints, costs, watch),)
    forms: list[_Form] = []
    refused: list[Rejected] = []
    why: list[AutofuseError] = []
    for hint in hints:
        number = len(forms)
        own = watch if len(hints) == 1 else named(watch, f"form {number}")
        try:
            forms.append(_tried(hint, costs, number, own))
        except AutofuseError as e:
            why.append(e)
            refused.append(_refused(number, e))
    if not forms:
        raise why[0]
    first, *others = _kept(forms, grid(hints[0], target), costs)
    return (replace(first, rejected=(*first.rejected, *refused)), *others)


def _kept(
    forms: Sequence[_Form], points: Sequence[Point], costs: Costs
) -> tuple[ScheduleResult, ...]:
    """Return the kept forms, each with its templates."""
    found = select([f.groups for f in forms], points, costs)
    lost = [
        Rejected(0, f"form {f.number}", f"never the fastest on the grid of {len(points)} points")
        for f, kept in zip(forms, found, strict=True)
        if kept is None
    ]
    out: list[ScheduleResult] = []
    for form, kept in zip(forms, found, strict=True):
        if kept is not None:
            out.append(_result(form, kept, costs, () if out else lost))
    return tuple(out)


def _result(
    form: _Form, kept: Sequence[Kept], costs: Costs, rejected: Sequence[Rejected]
) -> ScheduleResult:
    """Return the schedule of a form, with the kept templates of its groups."""
    why = [*rejected]
    groups: list[Group] = []
    for g, (made, barrier), k in zip(form.inputs, form.groups, kept, strict=True):
        left = [
            Rejected(g.group, m.impl.name, why_left_out(made, k, i), title=m.impl.title)
            for i, m in enumerate(made)
            if i not in k.at
        ]
        own = [r for r in form.rejected if r.group == g.group] + left
        why += own
        if form.watch is not None:
            found = _verdicts(made, k, own, costs)
            told(form.watch, f"candidates of group {g.group}", g, found)
        groups.append(Group(g.group, in_order(made, k), sync_before=barrier))
    return ScheduleResult(form.number, form.hint, _side_by_side(groups), tuple(why))


def _cheapest(hints: Sequence[HintGraph], costs: Costs, watch: Watch | None) -> ScheduleResult:
    """Return the form with the least modelled time, the first of equals; the others are recorded as rejected."""
    points = grid(hints[0], costs.target)
    found: list[tuple[float, int, _Form]] = []
    rejected: list[Rejected] = []
    refused: list[AutofuseError] = []
    if len(hints) == 1:
        return _kept([_tried(hints[0], costs, 0, watch)], points, costs)[0]
    moved = _moved_cycles(hints[0], costs.chip)
    for number, hint in enumerate(hints):
        least, best = min((f[:2] for f in found), default=(math.inf, 0))
        barriers = len(_barriers(group_order_hazards(hint))) * costs.target.sync_all
        always = moved + barriers
        if found and always >= least - least / LITTLE:
            reason = (
                f"slower by the model than form {best}: its barriers and GM alone take "
                f"{always:,.0f} cycles, form {best} takes {least:,.0f} in all"
            )
            rejected.append(Rejected(0, f"form {number}", reason))
            continue
        try:
            form = _tried(hint, costs, 0, named(watch, f"form {number}"))
        except AutofuseError as e:
            refused.append(e)
            rejected.append(_refused(number, e))
            continue
        times = form_times(form.groups, points[:1], costs, alone=False)
        found.append((totals(times, barriers)[0], number, form))
    if not found:
        raise refused[0]
    least, best, taken = min(found, key=lambda f: f[:2])
    for cycles, number, _ in found:
        if number != best:
            reason = slower_words(cycles, f"form {best}", least)
            rejected.append(Rejected(0, f"form {number}", reason))
    (result,) = _kept([taken], points, costs)
    return replace(result, rejected=(*result.rejected, *rejected))


def _moved_cycles(hint: HintGraph, chip: Chip) -> float:
    """Return a lower bound of GM cycles for the inputs and outputs of a graph of known sizes, for any form."""
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
                # Loads of one input may overlap.
                loaded[n.inputs[0]] = max(loaded.get(n.inputs[0], 0), nbytes)
    return sum(loaded.values()) / chip.read + stored / chip.write


def _refused(number: int, why: AutofuseError) -> Rejected:
    d = why.diagnostics[0]
    return Rejected(0, f"form {number}", d.message, d.code)


def schedule(hint: HintGraph, target: TargetSpec, *, result: int = 0) -> tuple[ScheduleResult, ...]:
    """Return the schedules of ``hint`` that are worth a branch in the kernel; at present one result.

    Args:
        hint: a canonical graph.
        target: the chip.
        result: index of the result.

    Raises:
        AutofuseError: AF3001 if an op is not available, AF3002/AF3003/AF3004 if no template fits (the notes list each
            buffer and the tile that would fit).
    """
    costs = Costs(target)
    return _kept([_tried(hint, costs, result)], grid(hint, target), costs)


class _Form(NamedTuple):
    """A division of a graph into groups, with all templates that could be made.

    Attributes:
        number: index of the result.
        inputs: scheduling input of each group.
        rejected: templates that could not be made.
    """

    number: int
    hint: HintGraph
    inputs: tuple[GroupInput, ...]
    groups: tuple[Tried, ...]
    rejected: tuple[Rejected, ...]
    watch: Watch | None


def _tried(hint: HintGraph, costs: Costs, result: int, watch: Watch | None = None) -> _Form:
    """Return the form of ``hint`` with all its templates."""
    parts, target = groups(hint), costs.target
    late = _barriers(group_order_hazards(hint))
    hints = CacheHints(hint, target)
    rejected: list[Rejected] = []
    out: list[Tried] = []
    spaces = place_workspaces(hint, target)
    # Legalise all groups before scheduling the first, to report everything that the chip lacks at once.
    inputs = list(_group_inputs(hint, parts, spaces, target, result, watch))
    unmoved: list[UnmovedRow] = []
    for g in inputs:
        next_tensor = g.inputs + g.outputs + len(spaces)
        try:
            made, dropped = _made(g, next_tensor, costs, watch)
        except UnmovedRowsError as e:
            unmoved += e.rows  # report those of all groups at once
            continue
        made = [m._replace(impl=hints.given_to(m.impl)) for m in made]
        rejected += dropped
        out.append(Tried(tuple(made), g.group in late))
    if unmoved:
        raise UnmovedRowsError(unmoved, target)
    return _Form(result, hint, tuple(inputs), tuple(out), tuple(rejected), watch)


def _group_inputs(
    hint: HintGraph,
    parts: Sequence[Sequence[Node]],
    spaces: Sequence[Node],
    target: TargetSpec,
    result: int,
    watch: Watch | None = None,
) -> Iterator[GroupInput]:
    """Yield the scheduling input of each group; ``parts``: the nodes of the groups, ``spaces``: the workspaces."""
    inputs = sum(1 for _ in hint.ops("Data"))
    outputs = 1 + max((n.number("index") for n in hint.ops("Output")), default=-1)
    legal_of, ends = Legalizer(hint, target), _Ends(hint, spaces)
    axes = plain(hint.axes)
    refused: list[Diagnostic] = []
    for index, nodes in enumerate(parts):
        whole = ends.around(nodes)
        try:
            legal = _in_gm(legal_of.of(whole), inputs, outputs)
        except AutofuseError as e:
            if any(d.code != "AF3001" for d in e.diagnostics):
                raise
            refused += e.diagnostics
            continue
        if watch is not None:
            before, after = (replace(hint, nodes=tuple(ns)) for ns in (whole, legal))
            told(watch, f"legalise group {index}", before, after)
        order = next(n.y.axis for n in legal if n.op == "Store")
        reduced, within = _reduced_axes(legal, order)
        yield in_parts(
            GroupInput(
                hint.name,
                result,
                index,
                hint.symbols,
                axes,
                order,
                with_fixed_order(legal) if target.invariant else legal,
                target,
                inputs,
                reduced,
                outputs,
                within,
            )
        )
    if refused:
        raise AutofuseError(dict.fromkeys(refused))


def _barriers(hazards: Sequence[tuple[int, int]]) -> set[int]:
    """Return the groups that start with a barrier: one barrier separates all earlier groups from all later ones."""
    found: set[int] = set()
    last = 0
    for later in sorted({b for _, b in hazards}):
        if any(a >= last for a, b in hazards if b == later):
            found.add(later)
            last = later
    return found


def _side_by_side(parts: Sequence[Group]) -> tuple[Group, ...]:
    """Start groups without a barrier in between on different cores, so that small groups run in parallel.

    The last of them starts on core 0, each of the others after the cores of the next group.
    """
    out: list[Group] = []
    for g, after in itertools.zip_longest(parts, parts[1:]):
        if after is not None and not after.sync_before:
            core = f"first_core_{g.index}"
            moved = (replace(i, tiling=replace(i.tiling, first_core=core)) for i in g.impls)
            g = replace(g, impls=tuple(moved))
        out.append(g)
    return tuple(out)


def _reduced_axes(
    nodes: Sequence[Node], order: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes that the reductions of a group reduce or its running sums run along, in order.

    If it has reductions in parts, these are theirs; those of its other reductions are returned as well, else none.
    """
    named = {n.name: n for n in nodes}
    for n in nodes:
        if n.op == SCAN:
            return tuple(a for a in order if a in scanned_axes(n)), ()
    gone: dict[bool, set[int]] = {True: set(), False: set()}
    for n in nodes:
        if n.op in REDUCES:
            gone[PART in n.attrs] |= set(named[n.inputs[0]].y.varies()).difference(n.y.varies())
    parted, whole = (tuple(a for a in order if a in gone[k]) for k in (True, False))
    return (parted, whole) if parted else (whole, ())


class _Ends:
    """The nodes of a graph that represent GM: its inputs, outputs and workspaces, which the groups read and write."""

    def __init__(self, hint: HintGraph, spaces: Sequence[Node]) -> None:
        pieces = Counter(n.attrs["index"] for n in hint.ops("Output"))
        #: Name of an input -> its position among the inputs, and its node.
        self._data = {n.name: (k, n) for k, n in enumerate(hint.ops("Data"))}
        #: Name of a Store -> the outputs that it writes, with their positions.
        self._outputs: dict[str, list[tuple[int, Node]]] = {}
        for k, n in enumerate(hint.ops("Output")):
            count = pieces[n.attrs["index"]]
            whole = n if count == 1 else replace(n, attrs={**n.attrs, "pieces": count})
            for store in n.inputs:
                self._outputs.setdefault(store, []).append((k, whole))
        self._spaces = spaces

    def around(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes of a group with the Data nodes before them and the Output nodes after them.

        A Workspace that it reads has no inputs here: its writers belong to another group.
        """
        inside = {n.name for n in nodes}
        used = {i for n in nodes for i in n.inputs}
        read = sorted(
            (self._data[x] for x in used & self._data.keys() if x not in inside),
            key=lambda found: found[0],
        )
        made = dict(o for x in inside & self._outputs.keys() for o in self._outputs[x])
        data = [n for _, n in read]
        outputs = [made[k] for k in sorted(made) if made[k].name not in inside]
        data += [replace(n, inputs=()) for n in self._spaces if n.name in used]
        for n in self._spaces:
            stores = tuple(i for i in n.inputs if i in inside)
            attrs = {**n.attrs, "pieces": len(n.inputs)} if len(n.inputs) > 1 else n.attrs
            outputs += [replace(n, inputs=stores, attrs=attrs)] if stores else []
        return [*data, *nodes, *outputs]


def _made(
    g: GroupInput, next_tensor: int, costs: Costs, watch: Watch | None = None
) -> tuple[list[Made], list[Rejected]]:
    """Return the templates of a group, and those that could not be made."""
    rejected: list[Rejected] = []
    made: list[Made] = []
    taken: set[str] = set()
    families = g.target.families
    fixed = bool(invariant_families(g))
    for family, placer, group, candidate in _tries(g):
        if families is not None and candidate.template not in families:
            reason = "the backend does not support templates of this family"
            rejected.append(Rejected(g.group, _title(group, candidate), reason))
            continue
        try:
            placed = placer(candidate)
            impl = family.planned(Template(group, candidate, placed, next_tensor, costs))
        except TemplateRejectedError as why:
            rejected.append(
                Rejected(
                    g.group,
                    _title(group, candidate),
                    why.text,
                    why.code,
                    why.details,
                    rows=why.rows,
                )
            )
            continue
        if fixed and not is_invariant(impl):
            reason = "whether it fits depends on the sizes of axes that are not reduced"
            rejected.append(Rejected(g.group, _title(group, candidate), reason, "AF3008"))
            continue
        if impl.name in taken:
            # Axis ids are local to a template: another one may use the same ids for other axes.
            tiled = impl.axes[impl.tiling.opened.axis].name
            parts = (impl.suffix, f"by_{tiled}")
            impl = replace(impl, suffix="_".join(p for p in parts if p))
        taken.add(impl.name)
        half = impl.tiling.ub_limit // 2
        always = family.always_legal(impl) or fits_every_size(impl.tiling, half)
        # With known sizes, all points are on the grid.
        made.append(Made(impl, always and bool(g.symbols)))
        if fixed:
            break  # the first one: only the reduced sizes may decide
    if not made:
        nothing = _verdicts((), Kept((), ()), rejected, costs)
        told(watch, f"candidates of group {g.group}", g, nothing)
        raise _no_fixed_order(g, rejected) if fixed else _nothing_fits(g, rejected)
    return made, rejected


def _verdicts(
    made: Sequence[Made], kept: Kept, rejected: Sequence[Rejected], costs: Costs
) -> tuple[Verdict, ...]:
    """Return the verdicts on all candidates of a group: those that could be made, the best first, then the others."""
    reasons = {r.template: r.whole_reason for r in rejected}
    out = [
        Verdict(
            m.impl.name,
            kept.times[i].cycles[0] if kept.times else modelled_cycles(m.impl, costs),
            "" if i in kept.at else reasons.pop(m.impl.name),
        )
        for i, m in enumerate(made)
    ]
    out.sort(key=lambda v: v.cycles or 0)
    return (*out, *(Verdict(name, None, reason) for name, reason in reasons.items()))


class _Try(NamedTuple):
    """A candidate of a family: the group on its axes, and the placing function."""

    family: Family
    placer: Placing
    group: GroupInput
    candidate: Candidate


def _tries(g: GroupInput) -> list[_Try]:
    """Return the candidates proposed by the template families."""
    out: list[_Try] = []
    kind = g.kind
    for family in invariant_families(g) or FAMILIES:
        if kind in family.kinds:
            placers: dict[int, Placing] = {}  # cached: most groups are tried with several tilings
            for group, candidate in family.candidates(g):
                placer = placers.get(id(group)) or family.placing(group)
                placers[id(group)] = placer
                out.append(_Try(family, placer, group, candidate))
    return out


def _title(g: GroupInput, c: Candidate) -> str:
    tiled = g.axes[g.order[c.position]].name
    return f"{c.template}{'_' + c.suffix if c.suffix else ''} (tile {tiled})"


def _in_gm(nodes: Sequence[Node], inputs: int, outputs: int) -> tuple[Node, ...]:
    """Return the nodes of a group, with GM tensors assigned to the nodes that represent GM and to the Stores.

    Args:
        nodes: the nodes, with the Data and Output nodes that they touch.
        inputs: number of kernel inputs, which are the first tensors.
        outputs: number of kernel outputs, which follow; workspaces come last.
    """
    first = {"Data": 0, "Output": inputs, "Workspace": inputs + outputs}
    found = {
        n.name: Mem(first[n.op] + n.number("index"), _GLOBAL, _GM, _AT_GM)
        for n in nodes
        if n.op in first
    }
    found |= {store: found[n.name] for n in nodes if is_sink(n) for store in n.inputs}
    return tuple(
        replace(n, y=replace(n.y, mem=found[n.name])) if n.name in found else n for n in nodes
    )


_HINTS = {
    "AF3002": "another target may support it; the notes say what is missing here",
    "AF3003": "split the graph into smaller groups, or cut it where the fewest tensors are alive",
    "AF3004": "split the graph into smaller groups, or cut it where the fewest tensors are alive",
}


def _no_fixed_order(g: GroupInput, rejected: Sequence[Rejected]) -> AutofuseError:
    """Return the error that no template sums in an order that depends only on the reduced sizes."""
    return AutofuseError.of(
        "AF3008",
        Wording(
            "no template of group {} of {} sums in an order that is independent of the other sizes",
            g.group,
            g.graph,
        ),
        hint="split the graph at its reductions, or build it without --invariant",
        notes=[Wording("{}: {}", r.template, r.whole_reason) for r in rejected],
    )


def _nothing_fits(g: GroupInput, rejected: Sequence[Rejected]) -> AutofuseError:
    """Return the error with the code of the first template, which has the weakest requirements."""
    if all(r.rows for r in rejected):
        # From the templates that move the most of them as rows.
        def single(r: Rejected) -> tuple[int, int]:
            return sum(row.elements in (None, ONE) for row in r.rows), -len(r.rows)

        return UnmovedRowsError(min(rejected, key=single).rows, g.target)
    return AutofuseError.of(
        rejected[0].code,
        Wording("no template fits group {} of {} on {}", g.group, g.graph, g.target.name),
        hint=_HINTS[rejected[0].code],
        notes=[Wording("{}: {}", r.template, r.whole_reason) for r in rejected],
    )
