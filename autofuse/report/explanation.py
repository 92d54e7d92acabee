"""Explains the schedule of a kernel: every template that was tried, with its modelled cost.

Templates and tiles count as chosen if the host function chooses them (``autofuse.schedule.search.solver``); all times
come from the model by which it compares them (``autofuse.schedule.search.breakdown``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autofuse.base.arguments import spelled
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.fusion import FusionGraph, Symbol
from autofuse.implgraph.ir.graph import ImplGraph, Node
from autofuse.report.conditions import needs
from autofuse.report.held import HeldNames
from autofuse.report.losses import kernel_roof
from autofuse.schedule.axes.result import Group, ScheduleResult, tiling_keys
from autofuse.schedule.cost.cache_hints import bypasses, held_bytes
from autofuse.schedule.cost.cost import NOTE, Conflict
from autofuse.schedule.cost.stagger import passes, same_on_all_cores
from autofuse.schedule.cost.ub_map import UbBuffer, conflicts, ub_map
from autofuse.schedule.search.breakdown import Tiling
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import best_tiling, choose
from autofuse.targets import Architecture, TargetSpec

__all__ = ["NOTE", "explain", "sizes_of"]

#: Pipes in the order in which a tile passes them, with the fields of ``Cost``.
PIPES = ("mte2", "vector", "mte3", "scalar")


def sizes_of(symbols: Sequence[Symbol], given: Mapping[str, int]) -> dict[str, int]:
    """Return a size for every symbol: the given one, else its hint, else 1024 clamped to its range.

    Raises:
        AutofuseError: AF1005 a given name is not a symbol, AF5007 a given size is out of range.
    """
    known = {s.name: s for s in symbols} | {s.label: s for s in symbols}
    given = {spelled(name, known): size for name, size in given.items()}
    for name, size in given.items():
        if name not in known:
            labels = ", ".join(s.label for s in symbols)
            have = f"symbols: {labels}" if symbols else "the graph has only fixed sizes"
            raise AutofuseError.of("AF1005", f"--shape {name}: unknown symbol {name!r}", hint=have)
        s = known[name]
        if not s.min <= size <= s.max:
            raise AutofuseError.of(
                "AF5007", f"--shape {name}={size}: {name} must be from {s.min} to {s.max}"
            )
    typical = {s.name: s.typical for s in symbols}
    return {**typical, **{known[n].name: size for n, size in given.items()}}


@dataclass(frozen=True, slots=True)
class _Tried:
    """A template with the tiling that the host function finds for it; None if it is not legal for these sizes.

    Attributes:
        impl: the template.
        tiling: the tiling with its modelled time.
        reads_again: it reloads data that other templates keep in UB.
    """

    impl: ImplGraph
    tiling: Tiling | None = None
    reads_again: bool = False


@dataclass(frozen=True, slots=True)
class _Form:
    """A form, with the host function's choice if this form runs.

    Attributes:
        result: the schedule of the form.
        chosen: True if the host function chooses this form.
        taken: a template per group; empty if some group has no legal template.
        tried: all templates, per group.
    """

    result: ScheduleResult
    chosen: bool
    taken: Sequence[ImplGraph]
    tried: Sequence[Sequence[_Tried]]

    @property
    def best(self) -> Sequence[_Tried]:
        """Chosen candidate per group."""
        return [
            next(t for t in g if t.impl is i) for g, i in zip(self.tried, self.taken, strict=False)
        ]

    def total_us(self, target: TargetSpec) -> float | None:
        """Return the time of the kernel; its groups share one start."""
        totals = [t.tiling.cost.total for t in self.best if t.tiling is not None]
        return sum(totals) - (len(totals) - 1) * target.kernel_head_us if totals else None


def explain(
    name: str,
    results: Sequence[ScheduleResult],
    target: TargetSpec,
    sizes: Mapping[str, int],
    graph: FusionGraph | None = None,
) -> dict[str, Any]:
    """Return templates, modelled times, limits and UB of a kernel, ready for JSON.

    Args:
        name: name of the kernel.
        results: the scheduler's results.
        target: the chip.
        sizes: values of all symbols.
        graph: the graph of the kernel, for the names of its tensors.
    """
    costs = Costs(target)
    chosen = choose(results, costs, sizes)
    forms: list[_Form] = []
    first_key = 0
    for r in results:
        choices = tiling_keys((r,))
        here = chosen is not None and first_key <= chosen.key < first_key + len(choices)
        own = chosen if here else choose((r,), costs, sizes)
        taken = () if own is None else choices[own.key - (first_key if here else 0)]
        tried = [[_solved(i, costs, sizes, g.sync_before) for i in g.impls] for g in r.groups]
        forms.append(_Form(r, here, taken, tried))
        first_key += len(choices)
    best = next((f for f in forms if f.chosen), None)
    return {
        "name": name,
        "target": target.name,
        "note": NOTE,
        "sizes": dict(sizes),
        "inputs": [] if graph is None else list(graph.inputs),
        "key": None if chosen is None else chosen.key,
        "keys": first_key,
        "total_us": None if best is None else best.total_us(target),
        "roof": None if graph is None else kernel_roof(results, costs, sizes, graph),
        "results": [_result(f, best, target, sizes, graph) for f in forms],
    }


def _solved(impl: ImplGraph, costs: Costs, sizes: Mapping[str, int], barrier: bool) -> _Tried:
    tiling = best_tiling(impl, costs, sizes, barriers=int(barrier))
    return _Tried(impl, tiling, costs.form(impl).reads_again)


def _result(
    form: _Form,
    best: _Form | None,
    target: TargetSpec,
    sizes: Mapping[str, int],
    graph: FusionGraph | None,
) -> dict[str, Any]:
    total = form.total_us(target)
    lost = ""
    if total is None:
        lost = "a group has no template that is legal for these sizes"
    elif not form.chosen and best is not None:
        least = best.total_us(target)
        assert least is not None
        lost = _compared(total, least)
    return {
        "result": form.result.index,
        "total_us": total,
        "chosen": form.chosen,
        "lost": lost,
        "groups": [_group(form, g, target, sizes, graph) for g in form.result.groups],
    }


def _group(
    form: _Form,
    group: Group,
    target: TargetSpec,
    sizes: Mapping[str, int],
    graph: FusionGraph | None,
) -> dict[str, Any]:
    at = form.result.groups.index(group)
    taken = form.best[at] if form.taken else None
    cost = None if taken is None or taken.tiling is None else taken.tiling.cost
    return {
        "group": group.index,
        "barrier": group.sync_before,
        "us": None if cost is None else cost.total,
        "start_us": None if cost is None else cost.start,
        "templates": [
            _template(t, taken, form.result, target, sizes, graph) for t in form.tried[at]
        ],
        "rejected": [
            {
                "template": r.template,
                "title": r.title or r.template,
                "reason": r.reason if graph is None else graph.in_words(r.reason),
                "details": r.details if graph is None else graph.in_words(r.details),
                "code": r.code,
            }
            for r in form.result.rejected
            if r.group == group.index
        ],
    }


def _template(
    tried: _Tried,
    taken: _Tried | None,
    result: ScheduleResult,
    target: TargetSpec,
    sizes: Mapping[str, int],
    graph: FusionGraph | None,
) -> dict[str, Any]:
    impl, tiling = tried.impl, tried.tiling
    axes = {a.id: a.name for a in impl.axes}
    row: dict[str, Any] = {
        "function": impl.name,
        "template": impl.variant,
        "title": impl.title,
        "tile_axis": axes[impl.tiling.opened.axis],
        "chosen": tried is taken,
        "legal": tiling is not None,
    }
    if tiling is None:
        broken = [c for c in impl.tiling.conditions if not _holds(c, sizes)]
        why = "; ".join(needs(c, impl.symbols, sizes) for c in broken) or "no tile fits UB"
        return {**row, "lost": f"not legal for these sizes: {why}"}
    buffers = ub_map(impl, sizes, tiling.tile)
    names = None if graph is None else HeldNames(impl, graph)
    arch = target.arch
    calls = conflicts(impl, sizes, tiling.tile, arch)
    cost = asdict(tiling.cost)
    limit = cost.pop("limit")
    return {
        **row,
        "tile": tiling.tile,
        "tiles_per_core": tiling.per_core,
        "cores": tiling.cores,
        "us": cost,
        "limit": limit,
        "bound_us": tiling.cost.bound,
        "lost": "" if tried is taken else _lost(tried, taken),
        "two_operand_calls": sum(read > 1 for _, read, _ in calls),
        "without_conflict": sum(read > 1 and c is Conflict.NONE for _, read, c in calls),
        "bank_conflicts": [
            {"node": n.name, "op": n.op, "between": c.value, "reason": _why_banks(impl, n, c, arch)}
            for n, _, c in calls
            if c is not Conflict.NONE
        ],
        "l2": _l2(result, impl, target, sizes),
        "staggered_inputs": _staggered(impl),
        "ub_bytes": sum(b.nbytes * b.count for b in buffers),
        "ub_limit": impl.tiling.ub_limit,
        "ub": [_buffer(b, names) for b in buffers],
    }


def _l2(
    result: ScheduleResult, impl: ImplGraph, target: TargetSpec, sizes: Mapping[str, int]
) -> dict[str, Any]:
    """Return the bytes that the kernel touches, and the inputs whose loads therefore bypass L2."""
    named = impl.by_name()
    found = (n for n in impl.nodes if n.op == "Load" and bypasses(n, target, sizes))
    return {
        "touched_bytes": held_bytes(result.hint).evaluate(sizes),
        "size_bytes": target.l2_bytes,
        "bypassed_inputs": sorted(named[n.inputs[0]].number("index") for n in found),
    }


def _staggered(impl: ImplGraph) -> list[int]:
    """Return the inputs that all cores read in a loop, each core starting at a different step."""
    named = impl.by_name()
    loops = [nodes for p, nodes in enumerate(passes(impl)) if p in impl.tiling.staggered]
    ends = [named[n.inputs[0]] for nodes in loops for n in nodes if same_on_all_cores(impl, n)]
    return sorted({end.number("index") for end in ends if end.op == "Data"})


def _holds(condition: Any, sizes: Mapping[str, int]) -> bool:
    try:
        return bool(condition.holds(sizes))
    except ExprError:
        return False


def _lost(tried: _Tried, taken: _Tried | None) -> str:
    """Explain why a legal template is not chosen: how much slower it is, and which part grew most."""
    if taken is None or taken.tiling is None or tried.tiling is None:
        return "another group has no template that is legal for these sizes"
    cost, best = tried.tiling.cost, taken.tiling.cost
    less = 100 * (1.0 - cost.total / best.total)
    if less >= 0.05 and tried.reads_again:
        return (
            f"{less:.1f} % faster by the model, but it reloads data that the one taken keeps in UB"
        )
    text = _compared(cost.total, best.total)
    if less > -0.05:
        return text
    parts = [(getattr(cost, p) - getattr(best, p), p) for p in ("gm", *PIPES, "exposed", "start")]
    more, what = max(parts)
    if cost.limit in _WAITS and 2 * more < cost.total - best.total:
        return f"{text}; {_WAITS[cost.limit]}"
    reason = f"; {_TITLES.get(what, what.upper())} takes {more:.2f} us more there"
    return text + (reason if more >= 0.005 else "")


#: Text for templates that mostly wait, where no unit has more work.
_WAITS = {
    "queue depth": "its queues are too short for loads to run ahead",
    "last tile": "its last tiles take longer",
}

#: Field of ``Cost`` -> its name in the text, if not an abbreviation.
_TITLES = {
    "vector": "vector",
    "scalar": "scalar",
    "exposed": "time that is not overlapped",
    "start": "the start",
}


def _compared(us: float, least: float) -> str:
    """Return a modelled time compared with the chosen one's, in words."""
    slower = 100 * (us / least - 1.0)
    if slower >= 0.05:
        return f"{slower:.1f} % slower by the model than the one taken"
    return "as fast by the model as the one taken"


def _why_banks(impl: ImplGraph, n: Node, conflict: Conflict, arch: Architecture) -> str:
    """Explain why the memory plan leaves a call with its bank conflict."""
    if not arch.bank_halves:
        return f"{arch.vector_bytes} bytes of an operand span all groups of banks"
    if all(b.bank is None for b in impl.buffers):
        return "UB has no room for buffers in both halves of the banks"
    if conflict is Conflict.SOURCES and len(set(n.inputs)) == 1:
        return "both are the same tensor"
    if conflict is Conflict.SOURCES:
        return "other calls need the operands, or tensors that share their buffers, in one half of the banks"
    return "the result starts some rows after an operand"


def _buffer(b: UbBuffer, names: HeldNames | None) -> dict[str, Any]:
    whole, steps = (list(b.plan.tensors), []) if names is None else names.of(b.plan.tensors)
    return {
        "offset": b.offset,
        "bytes": b.nbytes,
        "count": b.count,
        "kind": b.plan.kind,
        "id": b.plan.id,
        "position": b.plan.position.value,
        "tensors": list(b.plan.tensors),
        "holds": whole,
        "steps_of": steps,
        "bank": b.plan.bank,
        "pad": b.plan.pad,
    }
