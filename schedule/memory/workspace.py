"""Offsets of workspaces, the temporaries in GM that one group writes and later groups read.

Before them, for a chip whose cores meet in software, is the place where they do.
"""

from __future__ import annotations

from autofuse.implgraph.expr.expression import Expr, align_up, const, total
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import HintGraph, Node
from autofuse.implgraph.ir.group_order import group_order_hazards
from autofuse.targets import Architecture, TargetSpec

__all__ = ["meeting_bytes", "place_workspaces", "workspace_bytes"]


def meeting_bytes(target: TargetSpec) -> int:
    """Bytes of GM, and of UB, by which all cores of a chip meet: a block for each of them; 0: hardware does it."""
    return 0 if target.arch.meets_in_hardware else target.aiv_cores * target.arch.block_bytes


def place_workspaces(hint: HintGraph, target: TargetSpec) -> tuple[Node, ...]:
    """The Workspace nodes with the attribute ``offset``: their first byte."""
    out: list[Node] = []
    end = _first(hint, target)
    for n in hint.ops("Workspace"):
        out.append(replace(n, attrs={**n.attrs, "offset": end}))
        end = end + _nbytes(n, target.arch)
    return tuple(out)


def workspace_bytes(hint: HintGraph, target: TargetSpec) -> Expr:
    """Bytes that all workspaces take together, with the place where the cores meet."""
    return _first(hint, target) + total(_nbytes(n, target.arch) for n in hint.ops("Workspace"))


def _first(hint: HintGraph, target: TargetSpec) -> Expr:
    """Bytes before the first workspace."""
    meets = meeting_bytes(target) if group_order_hazards(hint) else 0
    return align_up(const(meets), target.arch.cache_line_bytes)


def _nbytes(n: Node, arch: Architecture) -> Expr:
    """Bytes of whole cache lines, of which two workspaces share none."""
    return align_up(n.size("size") * n.y.dtype.itemsize, arch.cache_line_bytes)
