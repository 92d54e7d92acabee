"""The ops around a region that Inductor may compute in one kernel with it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from autofuse.clients.torch.ops.row import Kind
from autofuse.clients.torch.partition import kind_of
from autofuse.clients.torch.refusal import (
    ALGEBRA,
    FOURIER,
    PRODUCT,
    SCATTER,
    SORT,
    reason_for_kind,
)
from autofuse.clients.torch.selection import Made

__all__ = ["fuses", "is_view", "origin", "read", "siblings", "users"]

#: Reasons of ops that Inductor calls in a library, or that scatter: it fuses nothing into them, or only in a template.
_APART = (PRODUCT, SCATTER, SORT, FOURIER, ALGEBRA)


def read(made: Made) -> list[torch.fx.Node]:
    """Return the nodes of the tensors that a region reads."""
    nodes = (getattr(i, "node", None) for i in made.lowered.inputs)
    return list(dict.fromkeys(n for n in nodes if isinstance(n, torch.fx.Node) and _is_tensor(n)))


def _is_tensor(n: torch.fx.Node) -> bool:
    return isinstance(n.meta.get("val"), torch.Tensor)


def origin(n: torch.fx.Node) -> torch.fx.Node:
    """Return the node whose memory a view shows."""
    while is_view(n):
        n = n.all_input_nodes[0]
    return n


def is_view(n: torch.fx.Node) -> bool:
    """Return True if a node shows the memory of its first argument, or is one of its results."""
    if n.op != "call_function" or not n.all_input_nodes:
        return False
    return kind_of(n) is Kind.VIEW or n.target is operator.getitem


def users(n: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """Yield the users of a result, also through views."""
    for u in n.users:
        if u.op == "call_function" and kind_of(u) is Kind.VIEW:
            yield from users(u)
        else:
            yield u


def siblings(made: Made) -> dict[torch.fx.Node, list[torch.fx.Node]]:
    """Return the operands that other ops read as well, with which Inductor could compute the region, and these ops.

    It puts ops without dependencies into one kernel where they read the same data, also reductions over rows and over
    columns.  Operands that such an op computes are not among them.
    """
    inside = set(made.candidate.nodes) - set(made.candidate.outside)
    others = {
        n: [u for u in users(origin(n)) if u not in inside and fuses(u)]
        for n in read(made)
        if not fuses(origin(n))
    }
    if any(others.values()):
        beyond = _beyond(inside, lambda n: n.users) | _beyond(inside, lambda n: n.all_input_nodes)
        others = {n: [u for u in us if u not in beyond] for n, us in others.items()}
    return {n: us for n, us in others.items() if us}


def _beyond(
    inside: set[torch.fx.Node], after: Callable[[torch.fx.Node], Iterable[torch.fx.Node]]
) -> set[torch.fx.Node]:
    """Return the nodes on one side of a region that are reached through an op which Inductor does not fuse."""
    found: set[torch.fx.Node] = set()
    seen: set[tuple[torch.fx.Node, bool]] = set()
    left = [(n, False) for n in inside]
    while left:
        n, is_apart = left.pop()
        for m in after(n):
            step = (m, is_apart or not (fuses(m) or is_view(m)))
            if m in inside or step in seen:
                continue
            seen.add(step)
            left.append(step)
            if is_apart:
                found.add(m)
    return found


def fuses(n: torch.fx.Node) -> bool:
    """Return True if Inductor may compute a node in one kernel with its neighbours."""
    if n.op != "call_function" or not isinstance(n.target, torch._ops.OpOverload):
        return False
    name = n.target.overloadpacket.__name__
    return reason_for_kind(name) not in _APART and not _falls_back(n.target)


def _falls_back(target: Any) -> bool:
    """Return True for an op that Inductor calls as it is."""
    from torch._inductor.lowering import fallbacks, lowerings

    return target in fallbacks or target not in lowerings
