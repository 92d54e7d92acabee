"""The table of PyTorch's ops and their lowering to ops of the registry.

The modules ``pointwise``, ``reductions`` and ``movement`` add the rows; apart from the reasons in
``refusal``, no other module refers to PyTorch's ops by name.
"""

from __future__ import annotations

from typing import Any

import torch

from autofuse.clients.torch.ops import movement, pointwise, reductions
from autofuse.clients.torch.ops.row import ROWS, Kind, Row

__all__ = ["allocating", "claimed", "find"]

# Importing these modules adds their rows.
assert all((movement, pointwise, reductions))


def find(target: Any) -> Row | None:
    """Return the row of a node's target."""
    return ROWS.get(str(target)) if isinstance(target, torch._ops.OpOverload) else None


def allocating() -> list[Any]:
    """Return the ops of rows that compute new tensors from others."""
    kinds = (Kind.COMPUTE, Kind.COPY)
    made = [_overload(name) for name, found in ROWS.items() if found.kind in kinds]
    return [op for op in made if op is not None]


def _overload(name: str) -> Any:
    """Return the op of a row; None if this PyTorch does not have it."""
    namespace, op, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), op, None), overload, None)


def claimed() -> dict[str, Row]:
    """Return all rows by op name."""
    return dict(sorted(ROWS.items()))
