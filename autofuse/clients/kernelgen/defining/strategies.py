"""Optimisation strategies, and a verdict on each for an operator, from the code generator's plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autofuse.base.wording import counted
from autofuse.clients.kernelgen.defining.analysis import Analysis, Point
from autofuse.clients.kernelgen.defining.planned import Part, planned
from autofuse.codegen.backends.interface import plans
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ops.registry import lookup
from autofuse.targets import Target

__all__ = ["STRATEGIES", "Outlook", "Strategy", "Verdict", "outlook"]

#: Compute types of ops that combine an element with several others.
_SPREADS = ("elewise", "broadcast")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a strategy: can it help, and why.

    Attributes:
        applies: True if there is something to change.
        reason: one line per criterion.
        tries: changes to try, one line each; empty if it does not apply.
    """

    applies: bool
    reason: tuple[str, ...]
    tries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outlook:
    """Plan for an operator at the performance shapes.

    Attributes:
        graph: the formula.
        target: target of the plan.
        points: the performance shapes, smallest first.
        parts: the kernels or templates at each shape.
    """

    graph: FusionGraph
    target: Target
    points: tuple[Point, ...]
    parts: tuple[tuple[Part, ...], ...]

    @property
    def last(self) -> tuple[Part, ...]:
        """Parts of the largest shape."""
        return self.parts[-1]

    @property
    def is_triton(self) -> bool:
        """True if the kernels are written in Triton."""
        return plans(self.target)

    def at(self, k: int) -> str:
        """Return the sizes of a shape in words."""
        labels = self.graph.symbol_labels()
        sizes = (f"{labels[n]} = {v}" for n, v in self.points[k].case.sizes.items())
        return ", ".join(sizes) or "the sizes of the graph"

    def verdicts(self) -> dict[str, Verdict]:
        """Return the verdict on each strategy, by key."""
        return {key: s.judge(self) for key, s in STRATEGIES.items()}


def outlook(graph: FusionGraph, target: Target, analysis: Analysis) -> Outlook:
    """Return the plan for an operator at the performance shapes.

    Raises:
        AutofuseError: AF2xxx, AF3xxx: no kernel exists for the graph.
    """
    points = tuple(p for p in analysis.points if p.case.use == "performance")
    parts = tuple(planned(graph, target, p.case.sizes) for p in points)
    return Outlook(graph, target, points, parts)


def _grid(o: Outlook) -> Verdict:
    reasons = [
        f"{p.name}: {p.programs} at {o.at(k)}, but {p.units} fill the device"
        for k, parts in enumerate(o.parts)
        for p in parts
        if p.filled < p.units
    ]
    if reasons:
        tries = "more, smaller programs: split rows, or a second grid dimension"
        return Verdict(True, tuple(reasons), (tries,))
    listed = tuple(
        f"{p.name}: {p.programs} at {o.at(0)}, and {p.units} fill the device" for p in o.parts[0]
    )
    return Verdict(False, listed or _NOTHING)


def _blocks(o: Outlook) -> Verdict:
    if not o.last:
        return Verdict(False, _NOTHING)
    k = len(o.points) - 1
    if o.is_triton:
        reason = tuple(f"{p.name}: blocks of {p.block} over {p.over} at {o.at(k)}" for p in o.last)
        tries = tuple(f"{p.name}: blocks of half and twice {p.block}" for p in o.last)
        return Verdict(True, reason, tries)
    reason = tuple(
        f"{p.name}: tiles of {p.block} at {o.at(k)}, chosen at run time from "
        f"{counted(p.choices, 'template')} by the cost model"
        for p in o.last
    )
    return Verdict(
        True,
        reason,
        ("another tile or template: see autofuse explain for the model's figures",),
    )


def _warps(o: Outlook) -> Verdict:
    if not o.last:
        return Verdict(False, _NOTHING)
    if not o.is_triton:
        waiting = tuple(p.name for p in o.last if p.limit == "queue depth")
        if waiting:
            reason = tuple(f"{n} stalls on its queues (model)" for n in waiting)
            return Verdict(True, reason, ("smaller tiles, so that queues hold more tiles",))
        return Verdict(
            False, ("Ascend C has no warps, and no template stalls on its queues (model)",)
        )
    loops = [p for p in o.last if p.form == "loop"]
    stages = tuple(
        f"{p.name} has a loop: num_stages is the number of blocks in flight" for p in loops
    )
    if o.target.home != "cuda":
        none = ("vector cores have no warps, and no kernel has a loop over columns",)
        return Verdict(bool(loops), stages or none, ("num_stages of 1, 2, 3",) if loops else ())
    warps = tuple(f"{p.name}: {counted(p.warps, 'warp')} for blocks of {p.block}" for p in o.last)
    none = ("no kernel has a loop over columns: num_stages has no effect",)
    tries = tuple(
        f"{p.name}: num_warps of {max(p.warps // 2, 1)} and {min(2 * p.warps, 32)}" for p in o.last
    )
    more = tuple(f"{p.name}: num_stages of 1 to 4" for p in loops)
    return Verdict(True, (*warps, *(stages or none)), (*tries, *more))


def _memory(o: Outlook) -> Verdict:
    point = o.points[-1]
    where = f"at {o.at(len(o.points) - 1)} the model has {point.memory_us:.4g} us for memory"
    reason = (
        f"{where} and {point.compute_us:.4g} us for the lanes: the bottleneck is {point.bottleneck}"
    )
    if point.bottleneck != "memory bandwidth":
        return Verdict(False, (reason,))
    tries = ["program order, so that neighbouring programs read neighbouring data"]
    if o.is_triton:
        tries.append(
            "eviction policy: first for data read once, last for data that all programs read"
        )
    return Verdict(True, (reason,), tuple(tries))


def _reuse(o: Outlook) -> Verdict:
    reasons = [
        f"{p.name} loops over its columns {counted(p.passes, 'time')}"
        for p in o.last
        if p.passes > 1
    ]
    reasons += [
        f"{p.name} moves {counted(p.scratch_bytes, 'byte')} of scratch"
        for p in o.last
        if p.scratch_bytes
    ]
    sizes = o.points[-1].case.sizes
    counts = {name: prod(e.evaluate(sizes) for e in t.shape) for name, t in o.graph.tensors.items()}
    largest = max(counts.values(), default=0)
    small = [n for n in o.graph.inputs if 0 < counts[n] < largest and _meets(o.graph, n, counts)]
    reasons += [
        f"{n} has {counted(counts[n], 'element')}, and is reread for {largest}" for n in small
    ]
    if not reasons:
        return Verdict(False, ("every element is read once, and no data pass between kernels",))
    tries = []
    if any(p.passes > 1 or p.scratch_bytes for p in o.last):
        tries.append("larger blocks, or clusters, so that rows stay on chip")
    if small:
        tries.append("several rows per program, which then reads shared data once")
    return Verdict(True, tuple(reasons), tuple(tries))


def _meets(graph: FusionGraph, name: str, counts: Mapping[str, int]) -> bool:
    """Return True if an input, or a result computed from it one to one, is broadcast to more elements."""
    same = {name}
    for n in graph.nodes:
        if same.isdisjoint(x for x in n.inputs if isinstance(x, str)):
            continue
        result = n.outputs[0]
        if counts[result] == counts[name]:
            same.add(result)
        elif counts[result] > counts[name] and lookup(n.op).compute_type in _SPREADS:
            return True
    return False


def _dynamic(o: Outlook) -> Verdict:
    names = ", ".join(s.label for s in o.graph.symbols)
    if not names:
        return Verdict(False, ("all sizes are fixed: the blocks fit this shape",))
    forms: Sequence[str] = [", ".join(f"{p.form} {p.block}" for p in parts) for parts in o.parts]
    same = len(set(forms)) == 1
    reason = f"{names}: known only at run time"
    planned_as = f"the plan at the performance shapes: {forms[0] if same else '; '.join(forms)}"
    return Verdict(True, (reason, planned_as), ("blocks that depend on the call's sizes",))


_NOTHING = ("nothing is launched at these sizes",)


@dataclass(frozen=True, slots=True)
class Strategy:
    """A row of the table.

    Attributes:
        title: English name.
        chinese: its name in the write-up of the flow.
        judge: function that returns the verdict.
    """

    title: str
    chinese: str
    judge: Callable[[Outlook], Verdict]


#: Strategies by key, in the order of the document's sections.
STRATEGIES: Mapping[str, Strategy] = {
    "grid_config_optimization": Strategy("Grid", "网格配置优化", _grid),
    "block_size_optimization": Strategy("Block sizes", "块大小优化", _blocks),
    "warp_stage_optimization": Strategy("Warps and stages", "Warp和Stage配置优化", _warps),
    "memory_access_optimization": Strategy("Memory access", "内存访问优化", _memory),
    "data_reuse_optimization": Strategy("Data reuse", "数据复用优化", _reuse),
    "dynamic_shape_optimization": Strategy("Dynamic shapes", "动态Shape处理优化", _dynamic),
}
