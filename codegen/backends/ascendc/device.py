"""The kernel file: one function per template, and the entry that dispatches on ``tiling_key``."""

from __future__ import annotations

from collections.abc import Sequence

from autofuse.codegen.backends.ascendc.emit_cpp import emit_function, wrap_call
from autofuse.codegen.backends.ascendc.provenance import banner
from autofuse.codegen.ir.kernel_ir import Parameters
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.passes import run_passes
from autofuse.codegen.render import render
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.ops.rows.bits import WORDS
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.schedule.axes.result import ScheduleResult, tiling_keys
from autofuse.schedule.placement.lacing import LACES
from autofuse.schedule.placement.picking import PICKS
from autofuse.schedule.placement.row_operands import ROWS
from autofuse.schedule.placement.scan import SCAN
from autofuse.schedule.placement.stacking import STACK
from autofuse.targets import TargetSpec

__all__ = ["ENTRIES", "kernel_file", "parameter_names"]


#: Ways to enter the kernel, and the last parameter of each.
_TILING_PARAMETER = {"launch": "AutofuseTilingData t", "op-package": "GM_ADDR tiling"}
ENTRIES = tuple(_TILING_PARAMETER)


@frozen
class _KernelView:
    banner: str
    functions: tuple[str, ...]
    head: tuple[str, ...]
    dispatch: tuple[str, ...]
    reduces: bool
    scans: bool
    picks: bool
    laces: bool
    rows: bool
    words: bool


def parameter_names(graph: FusionGraph) -> Parameters:
    """GM parameters of the kernel: ``<g>_Data_<i>`` then ``<g>_Output_<i>``."""
    return Parameters(
        tuple(f"{graph.name}_Data_{i}" for i in range(len(graph.inputs))),
        tuple(f"{graph.name}_Output_{i}" for i in range(len(graph.outputs))),
    )


def kernel_file(
    graph: FusionGraph,
    results: tuple[ScheduleResult, ...],
    target: TargetSpec,
    entry: str = "launch",
) -> str:
    """Text of ``device/<g>_kernel.cpp``.

    ``entry``: ``launch``, the tiling data come by value (``<<<>>>``); ``op-package``, they come in GM and every tiling
    key becomes a binary of its own.
    """
    tensors = parameter_names(graph)
    impls: dict[str, ImplGraph] = {i.name: i for r in results for g in r.groups for i in g.impls}
    functions = tuple(
        emit_function(run_passes(lower_kernel(i, tensors, target))) for i in impls.values()
    )
    parameters = [f"GM_ADDR {t}" for t in tensors.names]
    parameters += ["GM_ADDR workspace", _TILING_PARAMETER[entry]]
    head = wrap_call(f'extern "C" __global__ __aicore__ void {graph.name}', parameters, " {")
    ops = {n.op for i in impls.values() for n in i.nodes}
    synced = frozenset((r.index, g.index) for r in results for g in r.groups if g.sync_before)
    view = _KernelView(
        banner(graph, target.name),
        functions,
        tuple(head),
        _dispatch(tiling_keys(results), tensors.names, synced, entry),
        not ops.isdisjoint({*REDUCES, "UbTranspose"}),
        SCAN in ops,
        not ops.isdisjoint(PICKS),
        not ops.isdisjoint({*LACES, STACK}),
        not ops.isdisjoint(ROWS),
        not ops.isdisjoint(WORDS),
    )
    return render("kernel.cpp.jinja", view)


def _dispatch(
    keys: Sequence[tuple[ImplGraph, ...]],
    tensors: Sequence[str],
    synced: frozenset[tuple[int, int]],
    entry: str,
) -> tuple[str, ...]:
    arguments = [*tensors, "workspace", "t"]
    out: list[str] = []
    if synced:
        # Cores wait for each other, which needs the hardware scheduler.
        out.append("KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);")
    else:
        out.append("KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);")
    if entry == "op-package":
        out += ["REGISTER_TILING_DEFAULT(AutofuseTilingData);", "GET_TILING_DATA(t, tiling);"]
    for key, choice in enumerate(keys):
        chosen = f"TILING_KEY_IS({key})" if entry == "op-package" else f"t.tiling_key == {key}"
        out.append(f"{'if' if key == 0 else '} else if'} ({chosen}) {{")
        for impl in choice:
            if (impl.result, impl.group) in synced:
                out.append("  SyncAll();")
            out += [f"  {line}" for line in wrap_call(impl.name, arguments, ";")]
    return (*out, "}")
