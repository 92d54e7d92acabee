"""Where the workspaces of a graph lie: temporaries in GM that one group writes and later ones read."""

from __future__ import annotations

from autofuse.implgraph.expr.expression import ZERO, Expr, align_up
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import HintGraph, Node
from autofuse.targets import Architecture

__all__ = ["place_workspaces", "workspace_bytes"]


def place_workspaces(hint: HintGraph, arch: Architecture) -> tuple[Node, ...]:
    """The Workspace nodes with the attribute ``offset``: their first byte."""
    out: list[Node] = []
    end = ZERO
    for n in hint.ops("Workspace"):
        out.append(replace(n, attrs={**n.attrs, "offset": end}))
        end = end + _nbytes(n, arch)
    return tuple(out)


def workspace_bytes(hint: HintGraph, arch: Architecture) -> Expr:
    """Bytes that all workspaces take together."""
    total = ZERO
    for n in hint.ops("Workspace"):
        total = total + _nbytes(n, arch)
    return total


def _nbytes(n: Node, arch: Architecture) -> Expr:
    """Bytes of whole cache lines, of which two workspaces share none."""
    return align_up(n.size("size") * n.y.dtype.itemsize, arch.cache_line_bytes)
