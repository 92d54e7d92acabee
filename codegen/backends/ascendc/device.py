"""The kernel file: one function per template, and the entry that dispatches on ``tiling_key``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autofuse.codegen.backends.ascendc.emit_cpp import emit_function
from autofuse.codegen.backends.ascendc.provenance import banner
from autofuse.codegen.backends.ascendc.words import wrap_call
from autofuse.codegen.functions import FUNCTIONS
from autofuse.codegen.ir.kernel_ir import WORKSPACE, KernelFn
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


#: Kernel entries, and the last parameter of each.
OP_PACKAGE = "op-package"
_TILING_PARAMETER = {
    "launch": "AutofuseTilingData t",
    OP_PACKAGE: "GM_ADDR tiling",
    "torch": "AutofuseTilingData t",
}
ENTRIES = tuple(_TILING_PARAMETER)
#: Bit 48 of the control register.  If 1, 16-bit float results overflow to infinity and keep NaN; if 0, a possible
#: initial state, they saturate.  The other bits keep the TPipe defaults: bit 60, bit 48 decides rather than each cast;
#: bit 59, casts to integers saturate; bit 53, integers wrap.
_OVERFLOWS = (
    "// 16-bit floats overflow to infinity, and NaN stays NaN.",
    "const int64_t autofuse_overflows = GetCtrlSpr<48, 48>();",
    "SetCtrlSpr<48, 48>(1);",
)
_AS_FOUND = "SetCtrlSpr<48, 48>(autofuse_overflows);"


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
    """Return the text of ``device/<g>_kernel.cpp``.

    ``functions``: the functions of all templates after the passes, by name.
    ``entry``: ``launch`` passes the tiling data by value (``<<<>>>``); ``op-package`` passes them in GM and compiles
    one binary per tiling key; ``torch`` has the same entry as ``launch``.
    ``name``: the kernel's function; by default the graph's name.
    """
    tensors = parameter_names(graph)
    synced = _meeting_groups(results)
    used = {p for fn in functions.values() for p in fn.pointers}
    if synced and not target.arch.meets_in_hardware:
        used.add(WORKSPACE)
    # CANN reads the entry of an operator package: its parameters stay plain.
    named = used if entry != OP_PACKAGE else {*tensors.names, WORKSPACE}
    parameters = [
        f"{'' if p in named else '[[maybe_unused]] '}GM_ADDR {p}"
        for p in (*tensors.names, WORKSPACE)
    ]
    parameters.append(_TILING_PARAMETER[entry])
    # An operator package requests batch mode on the host, per tiling key.
    mode = "AUTOFUSE_BATCH_MODE " if synced and entry != OP_PACKAGE else ""
    head = wrap_call(
        f'extern "C" {mode}__global__ __aicore__ void {name or graph.name}', parameters, " {"
    )
    keys = tiling_keys(results)
    overflows = bool(target.arch.control_register) and _gives_short_floats(results)
    body = _dispatch(keys, functions, synced, entry, target.arch, overflows, WORKSPACE in used)
    view = _KernelView(
        banner(graph, target.name),
        tuple(emit_function(fn) for fn in functions.values()),
        tuple(head),
        "\n".join(f"  {line}" for line in body),
        function_headers(results, target.arch, entry),
    )
    return render("kernel.cpp.jinja", view)


def _meeting_groups(results: Iterable[ScheduleResult]) -> frozenset[tuple[int, int]]:
    """Return the ``(result, group)`` indices of groups preceded by a SyncAll."""
    return frozenset((r.index, g.index) for r in results for g in r.groups if g.sync_before)


def _gives_short_floats(results: Iterable[ScheduleResult]) -> bool:
    """Return True if some vector call has a 16-bit float result."""
    nodes = (n for r in results for g in r.groups for i in g.impls for n in i.nodes)
    shorts = (n for n in nodes if n.y.dtype.kind == "f" and n.y.dtype.itemsize == 2)
    return any(n.api is not None and n.api.unit == "Vector" for n in shorts)


def function_headers(
    results: Sequence[ScheduleResult], arch: Architecture, entry: str = "launch"
) -> tuple[str, ...]:
    """Return the headers of the device functions that a kernel calls, in order."""
    impls = [i for r in results for g in r.groups for i in g.impls]
    calls = [find_call(op, arch) for op in {n.op for i in impls for n in i.nodes}]
    found = {FUNCTIONS[c.api].header for c in calls if c is not None and c.api in FUNCTIONS}
    found |= {"dims" for i in impls for n in i.nodes if is_permuted(n)}
    if _meeting_groups(results):
        found |= set() if arch.meets_in_hardware else {"meet"}
        found |= set() if entry == OP_PACKAGE else {"batch"}
    return tuple(f"autofuse_{name}.h" for name in sorted(found - {""}))


def _dispatch(
    keys: Sequence[tuple[ImplGraph, ...]],
    functions: Mapping[str, KernelFn],
    synced: frozenset[tuple[int, int]],
    entry: str,
    arch: Architecture,
    overflows: bool,
    own_workspace: bool,
) -> tuple[str, ...]:
    place = "autofuse_workspace" if entry == OP_PACKAGE else WORKSPACE
    # A hardware SyncAll needs the chip's scheduler.
    task = "KERNEL_TYPE_MIX_AIV_1_0" if synced else "KERNEL_TYPE_AIV_ONLY"
    # A chip with combined cube and vector cores has one core type.
    task = "KERNEL_TYPE_AICORE" if task in arch.lacks else task
    out = [f"KERNEL_TASK_TYPE_DEFAULT({task});"]
    if entry == OP_PACKAGE:
        # CANN's own part of the workspace comes first.
        out += [
            "REGISTER_TILING_DEFAULT(AutofuseTilingData);",
            "GET_TILING_DATA(t, tiling);",
            *(
                ["GM_ADDR autofuse_workspace = GetUserWorkspace(workspace);"]
                if own_workspace
                else ()
            ),
        ]
    out += _OVERFLOWS if overflows else ()
    for key, choice in enumerate(keys):
        chosen = f"TILING_KEY_IS({key})" if entry == OP_PACKAGE else f"t.tiling_key == {key}"
        out.append(f"{'if' if key == 0 else '} else if'} ({chosen}) {{")
        meeting = "kFirstMeeting"
        for impl in choice:
            if (impl.result, impl.group) in synced and arch.meets_in_hardware:
                out.append("  SyncAll();")
            elif (impl.result, impl.group) in synced:
                out.append(f"  autofuse::MeetAll<autofuse::{meeting}>({place});")
                meeting = "kLaterMeeting"
            pointers = functions[impl.name].pointers
            arguments = [*(place if p == WORKSPACE else p for p in pointers), "t"]
            out += [f"  {line}" for line in wrap_call(impl.name, arguments, ";")]
    return (*out, "}", *((_AS_FOUND,) if overflows else ()))
