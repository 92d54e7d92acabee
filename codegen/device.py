"""The kernel file: one function per template, and the entry that dispatches on ``tiling_key``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autofuse.codegen.emit_cpp import emit_function, wrap_call
from autofuse.codegen.lower import lower_kernel
from autofuse.codegen.passes import run_passes
from autofuse.codegen.provenance import banner
from autofuse.codegen.render import render
from autofuse.implgraph.fusion import FusionGraph
from autofuse.implgraph.graph import ImplGraph
from autofuse.schedule.result import ScheduleResult, tiling_keys
from autofuse.targets import TargetSpec

__all__ = ["kernel_file", "parameter_names"]


@dataclass(frozen=True, slots=True)
class _KernelView:
    banner: str
    functions: tuple[str, ...]
    head: tuple[str, ...]
    dispatch: tuple[str, ...]


def parameter_names(graph: FusionGraph) -> tuple[str, ...]:
    """GM parameters of the kernel: ``<g>_Data_<i>`` then ``<g>_Output_<i>``."""
    data = [f"{graph.name}_Data_{i}" for i in range(len(graph.inputs))]
    return (*data, *(f"{graph.name}_Output_{i}" for i in range(len(graph.outputs))))


def kernel_file(graph: FusionGraph, results: tuple[ScheduleResult, ...], target: TargetSpec) -> str:
    """Text of ``device/<g>_kernel.cpp``."""
    tensors = parameter_names(graph)
    impls: dict[str, ImplGraph] = {i.name: i for r in results for g in r.groups for i in g.impls}
    functions = tuple(
        emit_function(run_passes(lower_kernel(i, tensors, target))) for i in impls.values()
    )
    parameters = [f"GM_ADDR {t}" for t in tensors]
    parameters += ["GM_ADDR workspace", "AutofuseTilingData t"]
    head = wrap_call(f'extern "C" __global__ __aicore__ void {graph.name}', parameters, " {")
    synced = frozenset((r.index, g.index) for r in results for g in r.groups if g.sync_before)
    view = _KernelView(
        banner(graph, target.name),
        functions,
        tuple(head),
        _dispatch(tiling_keys(results), tensors, synced),
    )
    return render("kernel.cpp.jinja", view)


def _dispatch(
    keys: Sequence[tuple[ImplGraph, ...]],
    tensors: Sequence[str],
    synced: frozenset[tuple[int, int]],
) -> tuple[str, ...]:
    arguments = [*tensors, "workspace", "t"]
    out: list[str] = []
    if synced:
        # Cores wait for each other, which needs the hardware scheduler.
        out.append("KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);")
    else:
        out.append("KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);")
    for key, choice in enumerate(keys):
        out.append(f"{'if' if key == 0 else '} else if'} (t.tiling_key == {key}) {{")
        for impl in choice:
            if (impl.result, impl.group) in synced:
                out.append("  SyncAll();")
            out += [f"  {line}" for line in wrap_call(impl.name, arguments, ";")]
    return (*out, "}")
