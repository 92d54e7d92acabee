"""Time of a kernel above its roof, by cause: what is in GM and need not be, barriers, units that take longer than GM.

All times are microseconds of the model. The causes add up to the difference between the modelled time and the roof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autofuse.base.wording import counted, form
from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph, Node
from autofuse.implgraph.ir.group_order import groups
from autofuse.report.held import HeldNames
from autofuse.report.roof import Roof, roof
from autofuse.schedule.axes.result import ScheduleResult, tiling_keys
from autofuse.schedule.cost.cache_hints import touched_bytes
from autofuse.schedule.legal.takes import is_of_rows
from autofuse.schedule.search.breakdown import Cost
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import best_tiling, choose
from autofuse.targets import TargetSpec

__all__ = ["WARNED", "kernel_roof"]

#: Units beside GM, with what keeps them busy.
_UNITS = {
    "vector": "vector calls take longer than GM",
    "mte2": "loads take longer than GM: many or short DMA commands",
    "mte3": "stores take longer than GM: many or short DMA commands",
    "scalar": "the scalar unit takes longer than GM: positions or numbers that it reads one by one",
}


#: ``autofuse build`` warns about a kernel that takes more times its roof than this.
WARNED = 4.0


@dataclass(frozen=True, slots=True)
class _Part:
    """The template that a group takes, with its modelled cost; ``cores`` is the number that it uses."""

    hint: HintGraph
    group: int
    impl: ImplGraph
    cost: Cost
    cores: int


def kernel_roof(
    results: Sequence[ScheduleResult],
    costs: Costs,
    sizes: Mapping[str, int],
    graph: FusionGraph,
) -> dict[str, Any] | None:
    """Return the roof of a kernel, the ratio to it and the causes of the difference, ready for JSON.

    Args:
        results: the schedules of the kernel.
        costs: costs of templates on the chip.
        sizes: values of all symbols.
        graph: its graph.

    Returns:
        None if no template is legal for these sizes, or they divide by 0.
    """
    parts = _taken(results, costs, sizes)
    if not parts:
        return None
    target = costs.target
    try:
        bound = roof(graph, sizes, target)
    except ExprError:
        return None
    total = sum(p.cost.total for p in parts) - (len(parts) - 1) * target.kernel_head_us
    return {
        "total_us": bound.total_us,
        "start_us": bound.start_us,
        "memory_us": bound.memory_us,
        "vector_us": bound.vector_us,
        "read_bytes": bound.read_bytes,
        "written_bytes": bound.written_bytes,
        "kernel_us": total,
        "groups": len(parts),
        "barriers": sum(p.cost.sync > 0 for p in parts),
        "times": total / bound.total_us,
        "lost": [
            {"cause": x.cause, "us": x.us, "text": x.text}
            for x in _losses(parts, bound, graph, target, sizes)
        ],
    }


def _taken(
    results: Sequence[ScheduleResult], costs: Costs, sizes: Mapping[str, int]
) -> list[_Part]:
    """Return the templates that the host function chooses; none if none is legal."""
    chosen = choose(results, costs, sizes)
    key = -1 if chosen is None else chosen.key
    for r in results:
        choices = tiling_keys((r,))
        if 0 <= key < len(choices):
            found = zip(r.groups, choices[key], strict=True)
            tilings = [
                (g, i, best_tiling(i, costs, sizes, barriers=int(g.sync_before))) for g, i in found
            ]
            return [_Part(r.hint, g.index, i, t.cost, t.cores) for g, i, t in tilings if t]
        key -= len(choices)
    return []


@frozen
class _Loss:
    cause: str
    us: float
    text: str


def _losses(
    parts: Sequence[_Part],
    bound: Roof,
    graph: FusionGraph,
    target: TargetSpec,
    sizes: Mapping[str, int],
) -> list[_Loss]:
    """Return the causes for which a kernel takes longer than its roof, the largest first.

    A cause may be negative: writes into L2 are faster than GM, and few cores start earlier than all.
    """
    moved = sum(p.cost.gm for p in parts)
    out = [_Loss("GM", moved - bound.memory_us, _traffic(parts, graph, sizes))]
    above = {u: 0.0 for u in _UNITS}
    where: dict[str, list[int]] = {u: [] for u in _UNITS}
    for p in parts:
        unit = max(_UNITS, key=lambda u: getattr(p.cost, u))
        more = getattr(p.cost, unit) - p.cost.gm
        if more > 0:
            above[unit] += more
            where[unit].append(p.group)
    # The roof includes this part of the vector time.
    above["vector"] -= max(bound.vector_us - bound.memory_us, 0.0)
    for unit, us in above.items():
        text = _UNITS[unit] + _idle(parts, where[unit], target)
        out.append(_Loss(unit.upper() if unit.startswith("mte") else unit, us, text))
    barriers = [p for p in parts if p.cost.sync > 0]
    reasons = "; ".join(_why_after(p, graph) for p in barriers)
    out.append(_Loss("barriers", sum(p.cost.sync for p in parts), reasons))
    heads = (len(parts) - 1) * target.kernel_head_us
    start = sum(p.cost.start for p in parts) - heads - bound.start_us
    out.append(_Loss("start", start, f"cores start {counted(len(parts), 'time')}"))
    busy = [max(p.cost.gm, *(getattr(p.cost, u) for u in _UNITS)) for p in parts]
    waits = sum(
        p.cost.total - p.cost.start - p.cost.sync - b for p, b in zip(parts, busy, strict=True)
    )
    out.append(_Loss("waits", waits, "first loads, last stores and queues that nothing overlaps"))
    return sorted((x for x in out if round(abs(x.us), 2) > 0), key=lambda x: -x.us)


def _idle(parts: Sequence[_Part], where: Iterable[int], target: TargetSpec) -> str:
    """Return the groups in which cores are idle, in words; empty for none."""
    here = [p for p in parts if p.group in set(where) and p.cores < target.aiv_cores]
    if not here:
        return ""
    few = ", ".join(f"group {p.group} has {p.cores}" for p in here)
    return f"; of {counted(target.aiv_cores, 'core')} {few}"


def _loads(nodes: Iterable[Node], named: Mapping[str, Node]) -> Iterator[tuple[Node, Node]]:
    """Yield Loads with the node that represents their memory."""
    return ((n, named[n.inputs[0]]) for n in nodes if n.op == "Load")


def _traffic(parts: Sequence[_Part], graph: FusionGraph, sizes: Mapping[str, int]) -> str:
    """Return the tensors that are in GM between groups or read more than once, in words."""
    reads: dict[tuple[str, int], dict[int, int]] = {}
    names: dict[tuple[str, int], str] = {}
    nbytes: Counter[tuple[str, int]] = Counter()
    words: dict[str, None] = {}
    for p in parts:
        named, held = p.hint.by_name(), HeldNames(p.hint, graph)
        # A tensor is read again in every pass of a reduce loop, and by every group.
        passes: dict[tuple[str, int], set[int]] = {}
        for n, end in _loads(p.impl.nodes, p.impl.by_name()):
            passes.setdefault(_key(end), set()).add(n.loop_pass)
            if is_of_rows(n):
                words[f"{_name(end, held, graph)} is loaded in whole rows"] = None
        for n, end in _loads(groups(p.hint)[p.group], named):
            names[_key(end)] = _name(end, held, graph)
            nbytes[_key(end)] += touched_bytes(n.y).evaluate(sizes)
            reads.setdefault(_key(end), {})[p.group] = len(passes.get(_key(end), {0}))
    for key, found in sorted(reads.items()):
        of = f"{form(len(found), 'group', 'groups')} {', '.join(map(str, found))}"
        if key[0] == "Workspace":
            read = form(len(found), "reads", "read")
            count = f"{nbytes[key]:,} {form(nbytes[key], 'byte', 'bytes')}"
            words[f"{names[key]} goes to GM for {of}, which {read} {count}"] = None
        elif sum(found.values()) > 1:
            times = counted(sum(found.values()), "time")
            words[f"{names[key]} is read {times}, in {of}"] = None
    return "; ".join(words)


def _key(end: Node) -> tuple[str, int]:
    return end.op, end.number("index")


def _name(end: Node, held: HeldNames, graph: FusionGraph) -> str:
    """Return the tensor of a node that represents GM."""
    if end.op == "Data":
        return graph.inputs[end.number("index")]
    whole, steps = held.of([end.name])
    return steps[0] if steps else whole[0]


def _why_after(p: _Part, graph: FusionGraph) -> str:
    """Explain why a group starts after a barrier: it reads what others write."""
    held = HeldNames(p.hint, graph)
    ends = (end for _, end in _loads(p.impl.nodes, p.impl.by_name()))
    read = {_name(end, held, graph) for end in ends if end.op == "Workspace"}
    what = ", ".join(sorted(read)) or "memory that another group writes"
    return f"group {p.group} waits for {what}"
