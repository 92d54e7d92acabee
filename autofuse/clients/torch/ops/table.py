"""The table of PyTorch's ops: for each one how it becomes ops of the registry.

Rows are added by the modules ``pointwise``, ``reductions``, ``movement`` and ``windows``; nothing else knows an op of
PyTorch by its name, apart from the reasons in ``refusal``.
"""

from __future__ import annotations

from typing import Any

import torch

from autofuse.clients.torch.ops import movement, pointwise, reductions, windows
from autofuse.clients.torch.ops.row import ROWS, Kind, Row

__all__ = ["allocating", "claimed", "find"]

# Importing them adds their rows.
assert all((movement, pointwise, reductions, windows))


def find(target: Any) -> Row | None:
    """The row of a node's target."""
    return ROWS.get(str(target)) if isinstance(target, torch._ops.OpOverload) else None


def allocating() -> list[Any]:
    """The ops of rows that make new tensors of others."""
    kinds = (Kind.COMPUTE, Kind.COPY)
    made = [_overload(name) for name, found in ROWS.items() if found.kind in kinds]
    return [op for op in made if op is not None]


def _overload(name: str) -> Any:
    """The op of a row; None where this PyTorch has none of that name."""
    namespace, op, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), op, None), overload, None)


def claimed() -> dict[str, Row]:
    """All rows, by the name of the op."""
    return dict(sorted(ROWS.items()))
