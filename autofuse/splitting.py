"""Split graphs that do not fit into one kernel: find the cuts, and name them in the diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from autofuse import compiler
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.codegen.backends.interface import Backend, plans
from autofuse.compiler import Stages
from autofuse.implgraph.cutting.cut import Split, needed_nodes
from autofuse.implgraph.cutting.split import Uncut, find_split
from autofuse.implgraph.cutting.split import cut_after as cut_at
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.results import SplitResult, graph_file
from autofuse.targets import Target, TargetSpec, ascend_chip

__all__ = ["compile_split", "with_cuts"]

#: Codes of refusals before code generation that smaller graphs may avoid.
_PERHAPS_TOO_MUCH = frozenset(
    {"AF2101", "AF2102", "AF2103", "AF2104", "AF3001", "AF3002", "AF3003", "AF3004"}
)
#: Most nodes that a hint names.
_NAMED_CUTS = 8
#: Most nodes of a refused graph for which cuts are searched to name them in the hint.
_SEARCHED = 200


def compile_split(
    fusion: FusionGraph,
    target: Target,
    *,
    entry: str,
    cut_after: Sequence[str] | None,
    run: Stages,
    backend: Backend | None = None,
) -> SplitResult:
    """Compile a graph into one kernel if possible, else into as few as possible with a driver.

    Raises:
        AutofuseError: as :func:`autofuse.build_split`.
    """
    backend, target = compiler.prepare(target, entry, backend)
    found: Split | Uncut
    if backend.capabilities.plans is not None:
        # The backend plans as many kernels as the graph needs.
        if cut_after:
            text = f"graphs are not cut for {target.name}"
            hint = "leave out the cuts: one file holds all kernels of the graph"
            raise AutofuseError.of("AF5007", text, hint=hint)
        whole = compiler.compile(fusion, target, entry=entry, backend=backend, run=run)
        return SplitResult(fusion, target, None, (whole,), whole.files, run.seconds)
    chip = ascend_chip(target)
    if cut_after:
        found = cut_at(fusion, cut_after)
    else:
        try:
            whole = compiler.compile(fusion, target, entry=entry, backend=backend, run=run)
            return SplitResult(fusion, target, None, (whole,), whole.files, run.seconds)
        except AutofuseError as e:
            if not _perhaps_too_much(e, fusion):
                raise
            refused = e
        find = partial(_find_split, target=chip, whole=refused, every=True)
        found = run("split", find, fusion)
    if isinstance(found, Uncut):
        raise _left_out(found)
    split = found
    if len(split.parts) > 1:
        _check_split_entry(backend, entry)
    parts = []
    for p in split.parts:
        own = Stages(run.observe, check_ir=run.check_ir)
        parts.append(compiler.compile(p.graph, target, entry=entry, backend=backend, run=own))
        for stage, seconds in own.seconds.items():
            run.seconds[stage] = run.seconds.get(stage, 0.0) + seconds
    if len(parts) == 1:
        # Without dead nodes the graph is one kernel.
        return SplitResult(fusion, target, None, tuple(parts), parts[0].files, run.seconds)
    schedules, made = [p.schedule for p in parts], [p.files for p in parts]
    files = run("join", lambda s: backend.join(s, schedules, made, chip), split)
    files = dict(sorted({**files, **graph_file(fusion)}.items()))
    return SplitResult(fusion, target, split, tuple(parts), files, run.seconds)


def _check_split_entry(backend: Backend, entry: str) -> None:
    if entry not in backend.capabilities.split_entries:
        raise AutofuseError.of(
            "AF5007",
            f"the driver of a split graph cannot launch kernels with the entry {entry!r}",
            hint="build the parts as separate graphs, or leave out --entry or --split",
        )


def _find_split(
    graph: FusionGraph,
    target: TargetSpec,
    whole: AutofuseError,
    *,
    every: bool,
    suspects: Sequence[str] = (),
) -> Split | Uncut:
    def refusal(part: FusionGraph) -> AutofuseError | None:
        try:
            compiler.schedule(part, target, Stages())
        except AutofuseError as e:
            return e
        return None

    return find_split(graph, refusal, every=every, suspects=suspects, whole=whole)


def _perhaps_too_much(error: AutofuseError, graph: FusionGraph) -> bool:
    several = len(needed_nodes(graph)) > 1
    return several and all(d.code in _PERHAPS_TOO_MUCH for d in error.diagnostics)


def with_cuts(error: AutofuseError, graph: FusionGraph, target: Target) -> AutofuseError:
    """Return the error with a hint at the smallest split that works, if any; unchanged if the backend plans."""
    if plans(target) or not _perhaps_too_much(error, graph):
        return error
    # Searching a graph with so many nodes or calls would take far longer than refusing it.
    if any(d.code == "AF2104" for d in error.diagnostics):
        return error
    if len(graph.nodes) > _SEARCHED:
        hint = "autofuse build --split looks for places where cuts help"
        return AutofuseError(d if d.hint else replace(d, hint=hint) for d in error.diagnostics)
    own = {n.label: n.name for n in graph.nodes}
    named = [own.get(d.where.node, d.where.node) for d in error.diagnostics]
    found = _find_split(graph, ascend_chip(target), error, every=False, suspects=named)
    if isinstance(found, Uncut):
        name = found.obstacles[0].node.label
        note = f"no cut helps: node {name} cannot be built alone either"
        return AutofuseError(
            d if d.where.node == name else replace(d, notes=(*d.notes, note))
            for d in error.diagnostics
        )
    cuts = found.cut_after
    if not cuts:
        hint = "remove the nodes that no output needs"
    else:
        names = ", ".join(cuts[:_NAMED_CUTS]) + (", ..." if len(cuts) > _NAMED_CUTS else "")
        place = f"node {names}" if len(cuts) == 1 else f"nodes {names}"
        hint = f"cut after {place} ({counted(len(cuts) + 1, 'kernel')}); autofuse build --split does that"
    return AutofuseError(replace(d, hint=hint, cut_after=cuts) for d in error.diagnostics)


def _left_out(found: Uncut) -> AutofuseError:
    """Return the errors of all nodes that no kernel can contain."""
    kernels = counted(found.kernels, "kernel")
    note = f"no cut helps; the other nodes of the graph form {kernels}"
    out = []
    for o in found.obstacles:
        for d in o.error.diagnostics:
            where = replace(d.where, node=o.node.label, pointer=d.where.pointer or o.node.origin)
            out.append(replace(d, where=where, notes=(*d.notes, note)))
    return AutofuseError(out)
