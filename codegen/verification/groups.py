"""Checks across the groups of a kernel: writers of outputs, and SyncAll between groups that share memory.

Groups run one after another on every core, but a core that finishes one starts the next while others still run it, and
each group divides its tiles among the cores in its own way.  So if a group writes GM that another one reads or writes,
a SyncAll must separate them, for inputs overwritten in place and for workspace alike.  A software SyncAll uses memory
that nothing else uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from autofuse.codegen.proofs.model import Finding
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import Hardware, ImplGraph
from autofuse.schedule.axes.result import Group, ScheduleResult
from autofuse.schedule.memory.workspace import workspace_bytes
from autofuse.schedule.placement.stacking import columns_of
from autofuse.targets import TargetSpec

__all__ = [
    "cores_have_a_place_to_meet",
    "cores_meet_between_groups",
    "outputs_have_one_writer",
]


def outputs_have_one_writer(graph: FusionGraph, r: ScheduleResult) -> Iterator[Finding]:
    """Every output, or every piece of it, is written by one Store, whichever templates are chosen."""
    writers = [0] * len(graph.outputs)
    pieces = [0] * len(graph.outputs)
    for o in r.hint.ops("Output"):
        pieces[o.number("index")] += 1
    for g in r.groups:
        sets = {_outputs(i) for i in g.impls}
        if len(sets) != 1:
            yield Finding(f"the templates of group {g.index} write different outputs")
        for index, count in Counter(next(iter(sets), ())).items():
            writers[index] += count
    for index, (count, wanted) in enumerate(zip(writers, pieces, strict=True)):
        if count != wanted or not count:
            name = graph.outputs[index].name
            yield Finding(f"output {name} is written by {count} Stores, not by {max(wanted, 1)}")


def _outputs(impl: ImplGraph) -> tuple[int, ...]:
    """Return the outputs that a template writes, each repeated for its pieces."""
    nodes = impl.by_name()
    return tuple(
        sorted(
            n.number("index")
            for n in impl.nodes
            if n.op == "Output"
            for _ in range(columns_of(nodes[n.inputs[0]]))
        )
    )


# ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Touched:
    """Tensors in GM that a group reads and writes, with one node for each."""

    reads: dict[int, str]
    writes: dict[int, str]


def cores_meet_between_groups(graph: FusionGraph, r: ScheduleResult) -> Iterator[Finding]:
    """A SyncAll separates two groups if one writes GM that the other one accesses."""
    first_output, touched = len(graph.inputs), [_touched(g) for g in r.groups]
    counts = Counter(o.number("index") for o in r.hint.ops("Output"))
    # Pieces of an output, or of a workspace, do not overlap, as another check proves.
    outputs = [index for index, count in counts.items() if count > 1]
    overwritten = [graph.outputs[index].inout for index in outputs]
    pieces = {first_output + index for index in outputs}
    pieces |= {graph.inputs.index(name) for name in overwritten if name is not None}
    pieces |= {
        first_output + len(graph.outputs) + w.number("index")
        for w in r.hint.ops("Workspace")
        if len(w.inputs) > 1
    }
    for late, group in enumerate(r.groups):
        for early in reversed(range(late)):
            if any(g.sync_before for g in r.groups[early + 1 : late + 1]):
                break
            before, after = touched[early], touched[late]
            for first, what, second, then in (
                (before.writes, "writes", after.reads, "reads"),
                (before.reads, "reads", after.writes, "overwrites"),
                (before.writes, "writes", after.writes, "overwrites"),
            ):
                both_write = first is before.writes and second is after.writes
                for tensor in sorted(first.keys() & second.keys()):
                    if both_write and tensor in pieces:
                        continue
                    yield Finding(
                        f"group {r.groups[early].index} {what} in {first[tensor]} what group "
                        f"{group.index} {then} in {second[tensor]}, and the cores do not meet in between",
                        second[tensor],
                    )


def cores_have_a_place_to_meet(
    graph: FusionGraph, r: ScheduleResult, target: TargetSpec
) -> Iterator[Finding]:
    """For a software SyncAll the workspace begins with one block per core, and a core has as much UB."""
    if target.arch.meets_in_hardware or not any(g.sync_before for g in r.groups):
        return
    needed = target.aiv_cores * target.arch.block_bytes
    ranges = graph.symbol_ranges()
    held = bounds(workspace_bytes(r.hint, target), ranges)[0]
    if held < needed:
        yield Finding(f"the host asks for {held} bytes of workspace, where cores meet in {needed}")
    if target.ub_bytes < needed:
        yield Finding(f"cores meet in {needed} bytes of UB, which has {target.ub_bytes}")
    for n in (n for g in r.groups for i in g.impls for n in i.nodes if n.op == "Workspace"):
        first = bounds(n.size("offset"), ranges)[0]
        if first < needed:
            yield Finding(
                f"{n.name} begins at byte {first} of the workspace, where cores meet in {needed}",
                n.name,
            )


def _touched(group: Group) -> _Touched:
    """Return the accesses of all templates together; an output that overwrites an input counts as that input."""
    out = _Touched({}, {})
    for impl in group.impls:
        nodes = impl.by_name()
        same = {
            _memory(impl, o.name): o.number("inout")
            for o in impl.nodes
            if o.op == "Output" and o.number("inout", -1) >= 0
        }
        for n in impl.nodes:
            if n.op == "Load":
                tensor = _memory(impl, nodes[n.inputs[0]].name)
                out.reads.setdefault(same.get(tensor, tensor), n.name)
            elif n.op == "Store":
                tensor = _memory(impl, n.name)
                out.writes.setdefault(same.get(tensor, tensor), n.name)
    return out


def _memory(impl: ImplGraph, name: str) -> int:
    """Return the number of a node's tensor in GM: an input or output of the kernel, or workspace."""
    mem = impl.by_name()[name].y.mem
    assert mem is not None, name
    assert mem.hardware is Hardware.GM, name
    return mem.tensor_id
