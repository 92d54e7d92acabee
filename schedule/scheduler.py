"""The scheduler: HintGraph -> groups -> templates -> memory plans -> ScheduleResult.

Every template that is dropped leaves its reason in ``ScheduleResult.rejected``.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.observing import Watch, named, told
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import (
    AllocType,
    Hardware,
    HintGraph,
    ImplGraph,
    Mem,
    Node,
    Position,
)
from autofuse.implgraph.lowering.lowering import group_order_hazards, groups
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.axes.result import Group, Rejected, ScheduleResult, Verdict
from autofuse.schedule.axes.tile_limits import fits_every_size
from autofuse.schedule.axes.tiling_axes import Candidate, GroupInput, plain
from autofuse.schedule.cost.cache_hints import CacheHints, touched_bytes
from autofuse.schedule.legal.ends import is_sink
from autofuse.schedule.legal.legalize import Legalizer
from autofuse.schedule.memory.workspace import place_workspaces
from autofuse.schedule.placement.scan import SCAN, scanned_axes
from autofuse.schedule.rank import Made, Ranked, in_order, modelled_cycles, rank, select
from autofuse.schedule.realise import Template
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import result_cycles
from autofuse.schedule.search.tile_cost import ChipTable
from autofuse.schedule.templates.family import Family, Placing
from autofuse.schedule.templates.invariant import (
    invariant_families,
    is_invariant,
    with_fixed_order,
)
from autofuse.schedule.templates.table import FAMILIES
from autofuse.targets import TargetSpec

__all__ = ["schedule", "schedule_all"]

#: Templates kept per group when all sizes are known, and for a kernel of symbolic sizes.
MAX_STATIC, MAX_SYMBOLIC = 2, 5
#: What all tensors in GM have in common.
_GLOBAL, _GM, _AT_GM = AllocType.GLOBAL, Hardware.GM, Position.GM
#: Branches of one kernel at most; several groups multiply.
MAX_KEYS = 16
#: A form that could be faster by less than this part of what another one takes is not looked at.
LITTLE = 20


def schedule_all(
    hints: Sequence[HintGraph],
    target: TargetSpec,
    costs: Costs | None = None,
    watch: Watch | None = None,
) -> tuple[ScheduleResult, ...]:
    """One result per form of a graph: the host chooses for the sizes of a call.  Of known sizes only the best one.

    Args:
        hints: canonical graphs.  All but the first one may be dropped, with the reasons among what was rejected.
        target: the chip.
        costs: what is known of the costs of templates on it, for who asks for them again; by default nothing is.
        watch: told of legalisation, and of the candidates of every group.

    Raises:
        AutofuseError: as :func:`schedule`, for the first form.
    """
    costs = costs or Costs(target)
    if len(hints) > 1 and not hints[0].symbols:
        return (_cheapest(hints, costs, watch),)
    of_first = watch if len(hints) == 1 else named(watch, "form 0")
    first = _scheduled(hints[0], costs, 0, of_first)
    others: list[ScheduleResult] = []
    rejected = list(first.rejected)
    for form in hints[1:]:
        number = 1 + len(others)
        found, why = _other(form, costs, number, named(watch, f"form {number}"))
        others += found
        rejected += why
    return (replace(first, rejected=tuple(rejected)), *others)


def _cheapest(hints: Sequence[HintGraph], costs: Costs, watch: Watch | None) -> ScheduleResult:
    """The form of the least modelled time, the first of equals; the others are among what was rejected."""
    found: list[tuple[float, int, ScheduleResult]] = []
    rejected: list[Rejected] = []
    refused: list[AutofuseError] = []
    moved = _moved_cycles(hints[0], costs.chip)
    for number, form in enumerate(hints):
        least, best = min((f[:2] for f in found), default=(math.inf, 0))
        always = moved + len(_barriers(group_order_hazards(form))) * costs.target.sync_all
        if found and always >= least - least / LITTLE:
            reason = (
                f"slower by the model than form {best}: its barriers and GM alone take "
                f"{always:,.0f} cycles, form {best} takes {least:,.0f} in all"
            )
            rejected.append(Rejected(0, f"form {number}", reason))
            continue
        try:
            result = _scheduled(form, costs, 0, named(watch, f"form {number}"))
        except AutofuseError as e:
            refused.append(e)
            rejected.append(_refused(number, e))
            continue
        cycles = result_cycles(result, costs)
        found.append((math.inf if cycles is None else cycles, number, result))
    if not found:
        raise refused[0]
    least, best, taken = min(found, key=lambda f: f[:2])
    for cycles, number, _ in found:
        if number != best:
            reason = _slower(cycles, f"form {best}", least)
            rejected.append(Rejected(0, f"form {number}", reason))
    return replace(taken, rejected=(*taken.rejected, *rejected))


def _moved_cycles(hint: HintGraph, chip: ChipTable) -> float:
    """Cycles that GM takes at least for the inputs and outputs of a graph of known sizes, whatever its form."""
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
    return sum(loaded.values()) / chip.read + stored / chip.write


def _other(
    form: HintGraph, costs: Costs, number: int, watch: Watch | None
) -> tuple[tuple[ScheduleResult, ...], list[Rejected]]:
    """The result of a form that is not needed; or why there is none."""
    try:
        return (_scheduled(form, costs, number, watch),), []
    except AutofuseError as e:
        return (), [_refused(number, e)]


def _refused(number: int, why: AutofuseError) -> Rejected:
    d = why.diagnostics[0]
    return Rejected(0, f"form {number}", d.message, d.code)


def _slower(cycles: float, better: str, least: float) -> str:
    """Why another template or form is better; ``cycles`` are infinite where this one is not legal."""
    if math.isinf(cycles):
        return "not legal at typical sizes"
    if round(cycles) > round(least):
        figures = f"{cycles:,.0f} cycles at typical sizes, not {least:,.0f}"
        return f"slower by the model than {better}: {figures}"
    if round(cycles) == round(least):
        return f"as fast by the model as {better}: {cycles:,.0f} cycles at typical sizes"
    return f"it loads again what {better} keeps in UB, and saves little by the model"


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
    return (_scheduled(hint, Costs(target), result),)


def _scheduled(
    hint: HintGraph, costs: Costs, result: int, watch: Watch | None = None
) -> ScheduleResult:
    """One way to realise ``hint``."""
    parts, target = groups(hint), costs.target
    keep = _templates_per_group(hint, len(parts))
    late = _barriers(group_order_hazards(hint))
    hints = CacheHints(hint, target)
    rejected: list[Rejected] = []
    out: list[Group] = []
    spaces = place_workspaces(hint, target.arch)
    # All groups are legalised before the first one is scheduled: what the chip lacks is said at once.
    for g in list(_group_inputs(hint, parts, spaces, target, result, watch)):
        next_tensor = g.inputs + g.outputs + len(spaces)
        impls, dropped = _schedule_group(g, keep, next_tensor, costs, watch)
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
    watch: Watch | None = None,
) -> Iterator[GroupInput]:
    """What the templates of each group are made of; ``parts``: the nodes of the groups, ``spaces``: the workspaces."""
    inputs = sum(1 for _ in hint.ops("Data"))
    outputs = 1 + max((n.number("index") for n in hint.ops("Output")), default=-1)
    legal_of, ends = Legalizer(hint, target), _Ends(hint, spaces)
    axes, merged = plain(hint.axes)
    for index, nodes in enumerate(parts):
        whole = ends.around(nodes)
        legal = _in_gm(legal_of.of(whole), inputs, outputs)
        if watch is not None:
            before, after = (replace(hint, nodes=tuple(ns)) for ns in (whole, legal))
            told(watch, f"legalise group {index}", before, after)
        order = next(n.y.axis for n in legal if n.op == "Store")
        yield GroupInput(
            hint.name,
            result,
            index,
            hint.symbols,
            axes,
            order,
            with_fixed_order(legal) if target.invariant else legal,
            target,
            inputs,
            _reduced_axes(legal, order),
            outputs,
            merged,
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


class _Ends:
    """The nodes of a graph that stand for GM: its inputs, outputs and workspaces, which the groups read and write."""

    def __init__(self, hint: HintGraph, spaces: Sequence[Node]) -> None:
        pieces = Counter(n.attrs["index"] for n in hint.ops("Output"))
        #: Name of an input -> its place among the inputs, and its node.
        self._data = {n.name: (k, n) for k, n in enumerate(hint.ops("Data"))}
        #: Name of a Store -> the places of the outputs that it makes, and these.
        self._outputs: dict[str, list[tuple[int, Node]]] = {}
        for k, n in enumerate(hint.ops("Output")):
            count = pieces[n.attrs["index"]]
            whole = n if count == 1 else replace(n, attrs={**n.attrs, "pieces": count})
            for store in n.inputs:
                self._outputs.setdefault(store, []).append((k, whole))
        self._spaces = spaces

    def around(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes of a group between the Data nodes that feed it and the Output nodes that it feeds.

        A Workspace that it reads has no inputs here: what writes it is in another group.
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


def _schedule_group(
    g: GroupInput, keep: int, next_tensor: int, costs: Costs, watch: Watch | None = None
) -> tuple[tuple[ImplGraph, ...], list[Rejected]]:
    rejected: list[Rejected] = []
    made: list[Made] = []
    taken: set[str] = set()
    families = g.target.families
    fixed = bool(invariant_families(g))
    for number, (family, placer, group, candidate) in enumerate(_tries(g)):
        if families is not None and candidate.template not in families:
            reason = "the backend does not write templates of this family"
            rejected.append(Rejected(g.group, _title(group, candidate), reason))
            continue
        try:
            placed = placer(candidate)
            impl = family.planned(Template(group, candidate, placed, next_tensor, costs))
        except TemplateRejectedError as why:
            rejected.append(
                Rejected(g.group, _title(group, candidate), str(why), why.code, why.details)
            )
            continue
        if fixed and not is_invariant(impl):
            reason = "whether it fits depends on sizes of what is kept"
            rejected.append(Rejected(g.group, _title(group, candidate), reason, "AF3008"))
            continue
        if impl.name in taken:
            # Ids of axes are those of one template: another one may have the same for other axes.
            tiled = impl.axes[impl.tiling.tile_axis].name
            parts = (impl.suffix, f"by_{tiled}")
            impl = replace(impl, suffix="_".join(p for p in parts if p))
        taken.add(impl.name)
        # Where only one is kept it has to be legal for every size, and any such template is good enough.
        always = family.always_legal(impl) or (keep == 1 and fits_every_size(impl.tiling))
        made.append(Made(number, impl, always, bool(candidate.conditions)))
        if fixed:
            break  # the first one: what decides may be nothing but what is reduced
    if not made:
        told(watch, f"candidates of group {g.group}", g, _verdicts((), (), rejected, costs))
        raise _no_fixed_order(g, rejected) if fixed else _nothing_fits(g, rejected)
    order = rank(made, keep, costs)
    chosen = select(order, keep, symbolic=bool(g.symbols), alone=keep == MAX_SYMBOLIC)
    best, last = order[0], chosen[-1].impl.title
    for cycles, m in order:
        if m not in chosen:
            reason = _slower(cycles, best.made.impl.title, best.cycles)
            if m is best.made:
                # It cannot be slower than itself: it gave its place to what every size can take.
                reason = (
                    f"not legal for every size, as {last} is, which the kernel keeps of this group"
                )
            rejected.append(Rejected(g.group, m.impl.name, reason, title=m.impl.title))
    if watch is not None:
        found = _verdicts(order, chosen, rejected, costs)
        told(watch, f"candidates of group {g.group}", g, found)
    return in_order(chosen, order), rejected


def _verdicts(
    ranked: Sequence[Ranked], chosen: Sequence[Made], rejected: Sequence[Rejected], costs: Costs
) -> tuple[Verdict, ...]:
    """What became of all candidates of a group: those that could be made, the best first, then the others."""
    reasons = {r.template: r.whole_reason for r in rejected}
    made = {m.impl.name for _, m in ranked}
    out = []
    for cycles, m in ranked:
        # Ranking leaves out what costs that decide nothing are.
        cycles = cycles or modelled_cycles(m.impl, costs)
        out.append(Verdict(m.impl.name, cycles, "" if m in chosen else reasons[m.impl.name]))
    out += [Verdict(r.template, None, r.whole_reason) for r in rejected if r.template not in made]
    return tuple(out)


class _Try(NamedTuple):
    """A candidate of a family: the group on its axes, and what places it."""

    family: Family
    placer: Placing
    group: GroupInput
    candidate: Candidate


def _tries(g: GroupInput) -> list[_Try]:
    """What the template families propose."""
    out: list[_Try] = []
    kind = g.kind
    for family in invariant_families(g) or FAMILIES:
        if kind in family.kinds:
            placers: dict[int, Placing] = {}  # most groups are tried with several tilings
            for group, candidate in family.candidates(g):
                placer = placers.get(id(group)) or family.placing(group)
                placers[id(group)] = placer
                out.append(_Try(family, placer, group, candidate))
    return out


def _title(g: GroupInput, c: Candidate) -> str:
    tiled = g.axes[g.order[c.position]].name
    return f"{c.template}{'_' + c.suffix if c.suffix else ''} (tile {tiled})"


def _in_gm(nodes: Sequence[Node], inputs: int, outputs: int) -> tuple[Node, ...]:
    """The nodes of a group, of which those that stand for GM, and the Stores, know their tensor there.

    Args:
        nodes: with the Data and Output nodes that they touch.
        inputs: number of inputs of the kernel, which are the first tensors.
        outputs: number of its outputs, which follow; workspaces come next.
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
    "AF3002": "another target may have what is missing here; the notes say what that is",
    "AF3003": "split the graph into smaller groups, or cut it where the fewest tensors are alive",
    "AF3004": "split the graph into smaller groups, or cut it where the fewest tensors are alive",
}


def _no_fixed_order(g: GroupInput, rejected: Sequence[Rejected]) -> AutofuseError:
    """No template sums up in an order that follows from what is reduced alone."""
    return AutofuseError.of(
        "AF3008",
        f"no template of group {g.group} of {g.graph} sums up in one order whatever the other sizes are",
        hint="cut the graph at its reductions, or build it without --invariant",
        notes=[f"{r.template}: {r.whole_reason}" for r in rejected],
    )


def _nothing_fits(g: GroupInput, rejected: Sequence[Rejected]) -> AutofuseError:
    """The error has the code of the first template, which asks for the least."""
    return AutofuseError.of(
        rejected[0].code,
        f"no template fits group {g.group} of {g.graph} on {g.target.name}",
        hint=_HINTS[rejected[0].code],
        notes=[f"{r.template}: {r.whole_reason}" for r in rejected],
    )
