"""The kernel file: one function per template, and the entry that dispatches on ``tiling_key``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autofuse.codegen.backends.ascendc.emit_cpp import emit_function, functions_on_registers
from autofuse.codegen.backends.ascendc.provenance import banner
from autofuse.codegen.backends.ascendc.registers_cpp import saturates
from autofuse.codegen.backends.ascendc.words import wrap_call
from autofuse.codegen.functions import FUNCTIONS
from autofuse.codegen.ir.kernel_ir import KernelFn
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.render import render
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.ops.registry import find_call
from autofuse.schedule.axes.result import ScheduleResult, tiling_keys
from autofuse.schedule.placement.permutation import is_permuted
from autofuse.targets import Architecture, TargetSpec

__all__ = ["ENTRIES", "OP_PACKAGE", "function_headers", "kernel_file"]


#: Ways to enter the kernel, and the last parameter of each.
OP_PACKAGE = "op-package"
_TILING_PARAMETER = {
    "launch": "AutofuseTilingData t",
    OP_PACKAGE: "GM_ADDR tiling",
    "torch": "AutofuseTilingData t",
}
ENTRIES = tuple(_TILING_PARAMETER)
#: Bit 60 of the control register: 0, each cast on registers says whether it saturates; 1, as a kernel finds it, bits 48
#: and 59 do.
_SATURATES_EACH = (
    "// Every cast says whether it saturates.",
    "SetCtrlSpr<60, 60>(0);",
)
_SATURATES_ALL = "SetCtrlSpr<60, 60>(1);"


@frozen
class _KernelView:
    banner: str
    functions: tuple[str, ...]
    head: tuple[str, ...]
    dispatch: str
    headers: tuple[str, ...]


def kernel_file(
    graph: FusionGraph,
    results: tuple[ScheduleResult, ...],
    functions: Mapping[str, KernelFn],
    target: TargetSpec,
    entry: str = "launch",
    name: str = "",
) -> str:
    """Text of ``device/<g>_kernel.cpp``.

    ``functions``: those of all templates after the passes, by name.
    ``entry``: ``launch``, the tiling data come by value (``<<<>>>``); ``op-package``, they come in GM and every tiling
    key becomes a binary of its own; ``torch`` is entered as ``launch``.
    ``name``: of the kernel's function; empty for that of the graph.
    """
    tensors = parameter_names(graph)
    parameters = [f"GM_ADDR {t}" for t in tensors.names]
    parameters += ["GM_ADDR workspace", _TILING_PARAMETER[entry]]
    head = wrap_call(
        f'extern "C" __global__ __aicore__ void {name or graph.name}', parameters, " {"
    )
    synced = frozenset((r.index, g.index) for r in results for g in r.groups if g.sync_before)
    keys = tiling_keys(results)
    body = _dispatch(keys, tensors.names, synced, entry)
    on_registers = (f for fn in functions.values() for f in functions_on_registers(fn.body))
    if any(saturates(f, target.arch) for f in on_registers):
        body = (*_SATURATES_EACH, *body, _SATURATES_ALL)
    view = _KernelView(
        banner(graph, target.name),
        tuple(emit_function(fn) for fn in functions.values()),
        tuple(head),
        "\n".join(f"  {line}" for line in body),
        function_headers(results, target.arch),
    )
    return render("kernel.cpp.jinja", view)


def function_headers(results: Iterable[ScheduleResult], arch: Architecture) -> tuple[str, ...]:
    """The headers of the device functions that templates call, in order."""
    impls = [i for r in results for g in r.groups for i in g.impls]
    calls = [find_call(op, arch) for op in {n.op for i in impls for n in i.nodes}]
    found = {FUNCTIONS[c.api].header for c in calls if c is not None and c.api in FUNCTIONS}
    found |= {"dims" for i in impls for n in i.nodes if is_permuted(n)}
    return tuple(f"autofuse_{name}.h" for name in sorted(found - {""}))


def _dispatch(
    keys: Sequence[tuple[ImplGraph, ...]],
    tensors: Sequence[str],
    synced: frozenset[tuple[int, int]],
    entry: str,
) -> tuple[str, ...]:
    place = "autofuse_workspace" if entry == OP_PACKAGE else "workspace"
    arguments = [*tensors, place, "t"]
    out: list[str] = []
    if synced:
        # Cores wait for each other, which needs the hardware scheduler.
        out.append("KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);")
    else:
        out.append("KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);")
    if entry == OP_PACKAGE:
        # CANN's own part of the workspace comes first.
        out += [
            "REGISTER_TILING_DEFAULT(AutofuseTilingData);",
            "GET_TILING_DATA(t, tiling);",
            "GM_ADDR autofuse_workspace = GetUserWorkspace(workspace);",
        ]
    for key, choice in enumerate(keys):
        chosen = f"TILING_KEY_IS({key})" if entry == OP_PACKAGE else f"t.tiling_key == {key}"
        out.append(f"{'if' if key == 0 else '} else if'} ({chosen}) {{")
        for impl in choice:
            if (impl.result, impl.group) in synced:
                out.append("  SyncAll();")
            out += [f"  {line}" for line in wrap_call(impl.name, arguments, ";")]
    return (*out, "}")
