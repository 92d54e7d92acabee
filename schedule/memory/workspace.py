"""Offsets of workspaces: temporaries in GM that one group writes and later groups read.

On a chip with a software barrier, the memory of the barrier precedes them.
"""

from __future__ import annotations

from autofuse.implgraph.expr.expression import Expr, align_up, const, total
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import HintGraph, Node
from autofuse.implgraph.ir.group_order import group_order_hazards
from autofuse.targets import Architecture, TargetSpec

__all__ = ["meeting_bytes", "place_workspaces", "workspace_bytes"]


def meeting_bytes(target: TargetSpec) -> int:
    """Return the bytes of GM, and of UB, for the software barrier: a block per core; 0 with a hardware barrier."""
    return 0 if target.arch.meets_in_hardware else target.aiv_cores * target.arch.block_bytes


def place_workspaces(hint: HintGraph, target: TargetSpec) -> tuple[Node, ...]:
    """Return the Workspace nodes with the attribute ``offset``: their first byte."""
    out: list[Node] = []
    end = _first(hint, target)
    for n in hint.ops("Workspace"):
        out.append(replace(n, attrs={**n.attrs, "offset": end}))
        end = end + _nbytes(n, target.arch)
    return tuple(out)


def workspace_bytes(hint: HintGraph, target: TargetSpec) -> Expr:
    """Return the total bytes of all workspaces, including the memory of the barrier."""
    return _first(hint, target) + total(_nbytes(n, target.arch) for n in hint.ops("Workspace"))


def _first(hint: HintGraph, target: TargetSpec) -> Expr:
    """Return the bytes before the first workspace."""
    meets = meeting_bytes(target) if group_order_hazards(hint) else 0
    return align_up(const(meets), target.arch.cache_line_bytes)


def _nbytes(n: Node, arch: Architecture) -> Expr:
    """Return the bytes in whole cache lines, since workspaces must not share any."""
    return align_up(n.size("size") * n.y.dtype.itemsize, arch.cache_line_bytes)
