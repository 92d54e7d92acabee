"""Why a kernel is scheduled as it is: every template that was tried, and what the cost model makes of it.

All times are those of the model (``autofuse.schedule.cost``), at the tile that it finds best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autofuse.diagnostics import AutofuseError
from autofuse.implgraph.expr import ExprError
from autofuse.implgraph.fusion import Symbol
from autofuse.implgraph.graph import ImplGraph, Node
from autofuse.schedule.cache_hints import bypasses, held_bytes
from autofuse.schedule.cost import NOTE, Conflict, Cost
from autofuse.schedule.result import Group, ScheduleResult
from autofuse.schedule.solver import best_tiling, comparable
from autofuse.schedule.stagger import passes, same_on_all_cores
from autofuse.schedule.workload import Tiling, UbBuffer, conflicts, ub_map
from autofuse.targets import TargetSpec

__all__ = ["NOTE", "explain", "sizes_of"]

#: Pipes in the order of a tile's way, with the fields of ``Cost``.
PIPES = ("mte2", "vector", "mte3", "scalar")


def sizes_of(symbols: Sequence[Symbol], given: Mapping[str, int]) -> dict[str, int]:
    """A size for every symbol: the given one, else its hint, else 1024 inside its range.

    Raises:
        AutofuseError: AF1005 a given name is no symbol, AF5007 a given size is out of range.
    """
    known = {s.name: s for s in symbols}
    for name, size in given.items():
        if name not in known:
            have = f"symbols: {', '.join(known)}" if known else "the graph has fixed sizes only"
            raise AutofuseError.of(
                "AF1005", f"--shape {name}: there is no symbol {name!r}", hint=have
            )
        s = known[name]
        if not s.min <= size <= s.max:
            raise AutofuseError.of(
                "AF5007", f"--shape {name}={size}: {name} is from {s.min} to {s.max}"
            )
    typical = {s.name: min(max(1024 if s.hint is None else s.hint, s.min), s.max) for s in symbols}
    return {**typical, **given}


@dataclass(frozen=True, slots=True)
class _Tried:
    """A template and its best tiling; None where it is not legal for these sizes."""

    impl: ImplGraph
    tiling: Tiling | None


def explain(
    name: str,
    results: Sequence[ScheduleResult],
    target: TargetSpec,
    sizes: Mapping[str, int],
) -> dict[str, Any]:
    """Templates, modelled times, limits and UB of a kernel, ready for JSON.

    Args:
        name: of the kernel.
        results: what the scheduler made.
        target: the chip.
        sizes: values of all symbols.
    """
    rows = [_result(r, target, sizes) for r in results]
    legal = [r for r in rows if r["total_us"] is not None]
    best = min(legal, key=lambda r: float(r["total_us"]), default=None)
    for r in rows:
        r["chosen"] = r is best
    return {
        "name": name,
        "target": target.name,
        "note": NOTE,
        "sizes": dict(sizes),
        "total_us": None if best is None else best["total_us"],
        "results": rows,
    }


def _result(result: ScheduleResult, target: TargetSpec, sizes: Mapping[str, int]) -> dict[str, Any]:
    groups = [_group(g, result, target, sizes) for g in result.groups]
    times = [(g["us"], g["start_us"]) for g in groups]
    total = None
    if all(us is not None for us, _ in times):
        # The groups are one kernel: it starts once.
        total = sum(us - start for us, start in times) + max(start for _, start in times)
    return {"result": result.index, "total_us": total, "groups": groups}


def _group(
    group: Group, result: ScheduleResult, target: TargetSpec, sizes: Mapping[str, int]
) -> dict[str, Any]:
    tried = [_Tried(i, _best(i, target, sizes, group.sync_before)) for i in group.impls]
    legal = [(t, t.tiling) for t in tried if t.tiling is not None]
    best = min(legal, key=lambda t: comparable(t[1].cost.total, t[0].impl, target), default=None)
    chosen = None if best is None else best[0]
    rows = [_template(t, t is chosen, best and best[1], result, target, sizes) for t in tried]
    return {
        "group": group.index,
        "barrier": group.sync_before,
        "us": None if best is None else best[1].cost.total,
        "start_us": None if best is None else best[1].cost.start,
        "templates": rows,
        "rejected": [
            {"template": r.template, "reason": r.reason, "code": r.code}
            for r in result.rejected
            if r.group == group.index
        ],
    }


def _best(
    impl: ImplGraph, target: TargetSpec, sizes: Mapping[str, int], barrier: bool
) -> Tiling | None:
    try:
        return best_tiling(impl, target, sizes, barriers=int(barrier))
    except ExprError:
        return None  # a size that this template divides by is 0


def _template(
    tried: _Tried,
    chosen: bool,
    best: Tiling | None,
    result: ScheduleResult,
    target: TargetSpec,
    sizes: Mapping[str, int],
) -> dict[str, Any]:
    impl, tiling = tried.impl, tried.tiling
    names = {a.id: a.name for a in impl.axes}
    row: dict[str, Any] = {
        "function": impl.name,
        "template": f"{impl.template}_{impl.suffix}" if impl.suffix else impl.template,
        "tile_axis": names[impl.tiling.tile_axis],
        "chosen": chosen,
        "legal": tiling is not None,
    }
    if tiling is None:
        broken = [c.text() for c in impl.tiling.conditions if not _holds(c, sizes)]
        why = f"it does not hold that {' and '.join(broken)}" if broken else "no tile fits UB"
        return {**row, "lost": f"not legal for these sizes: {why}"}
    buffers = ub_map(impl, sizes, tiling.tile)
    calls = conflicts(impl, sizes, tiling.tile)
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
        "lost": "" if chosen or best is None else _lost(tiling.cost, best.cost),
        "two_operand_calls": sum(read > 1 for _, read, _ in calls),
        "without_conflict": sum(read > 1 and c is Conflict.NONE for _, read, c in calls),
        "bank_conflicts": [
            {"node": n.name, "op": n.op, "between": c.value, "reason": _why_banks(impl, n, c)}
            for n, _, c in calls
            if c is not Conflict.NONE
        ],
        "l2": _l2(result, impl, target, sizes),
        "staggered_inputs": _staggered(impl),
        "ub_bytes": sum(b.nbytes * b.count for b in buffers),
        "ub_limit": impl.tiling.ub_limit,
        "ub": [_buffer(b) for b in buffers],
    }


def _l2(
    result: ScheduleResult, impl: ImplGraph, target: TargetSpec, sizes: Mapping[str, int]
) -> dict[str, Any]:
    """Bytes that the kernel touches, and the inputs whose loads bypass L2 for that."""
    named = impl.by_name()
    found = (n for n in impl.nodes if n.op == "Load" and bypasses(n, target, sizes))
    return {
        "touched_bytes": held_bytes(result.hint).evaluate(sizes),
        "size_bytes": target.l2_bytes,
        "bypassed_inputs": sorted(int(str(named[n.inputs[0]].attrs["index"])) for n in found),
    }


def _staggered(impl: ImplGraph) -> list[int]:
    """Inputs that all cores read in a loop in which each starts at a step of its own."""
    named = impl.by_name()
    loops = [nodes for p, nodes in enumerate(passes(impl)) if p in impl.tiling.staggered]
    ends = [named[n.inputs[0]] for nodes in loops for n in nodes if same_on_all_cores(impl, n)]
    return sorted({int(str(end.attrs["index"])) for end in ends if end.op == "Data"})


def _holds(condition: Any, sizes: Mapping[str, int]) -> bool:
    try:
        return bool(condition.holds(sizes))
    except ExprError:
        return False


def _lost(cost: Cost, best: Cost) -> str:
    """Why a template is not taken: how much slower, and which part of it grew most."""
    slower = cost.total / best.total - 1.0
    if slower <= -5e-4:
        return f"{-100 * slower:.1f} % faster by the model, but it loads again what the one taken keeps in UB"
    if slower < 5e-4:
        return "as fast as the one taken, which stands first"
    parts = [(getattr(cost, p) - getattr(best, p), p) for p in ("gm", *PIPES, "exposed")]
    more, what = max(parts)
    titles = {"gm": "GM", "vector": "vector", "scalar": "scalar", "exposed": "what is not hidden"}
    reason = f"; {titles.get(what, what.upper())} takes {more:.2f} us more" if more > 0 else ""
    return f"{100 * slower:.1f} % slower{reason}"


def _why_banks(impl: ImplGraph, n: Node, conflict: Conflict) -> str:
    """Why the memory plan leaves a call its bank conflict."""
    if all(b.bank is None for b in impl.buffers):
        return "UB has no room for buffers in two halves of the banks"
    if conflict is Conflict.SOURCES and len(set(n.inputs)) == 1:
        return "both operands are one tensor"
    if conflict is Conflict.SOURCES:
        return (
            "other calls need the operands, or what shares their buffers, in one half of the banks"
        )
    return "the result is some rows behind an operand"


def _buffer(b: UbBuffer) -> dict[str, Any]:
    return {
        "offset": b.offset,
        "bytes": b.nbytes,
        "count": b.count,
        "kind": b.plan.kind,
        "id": b.plan.id,
        "position": b.plan.position.value.rpartition(":")[2],
        "tensors": list(b.plan.tensors),
        "bank": b.plan.bank,
        "pad": b.plan.pad,
    }
