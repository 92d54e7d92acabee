"""Ends of a group: the nodes of the GM that it reads or writes."""

from __future__ import annotations

from autofuse.implgraph.ir.graph import Node

__all__ = ["is_sink", "is_source"]


def is_source(n: Node) -> bool:
    """Return True if Loads read the node's GM: an input, or a workspace that another group writes."""
    return n.op == "Data" or (n.op == "Workspace" and not n.inputs)


def is_sink(n: Node) -> bool:
    """Return True if Stores write the node's GM."""
    return n.op == "Output" or (n.op == "Workspace" and bool(n.inputs))
