"""The table of PyTorch's ops: for each one how it becomes ops of the registry.

Rows are added by the modules ``pointwise``, ``reductions``, ``movement`` and ``windows``; nothing else knows an op of
PyTorch by its name, apart from the reasons in ``refusal``.
"""

from __future__ import annotations

from typing import Any

import torch

from autofuse.torch.ops import movement, pointwise, reductions, windows
from autofuse.torch.ops.row import ROWS, Row

__all__ = ["claimed", "find"]

# Importing them adds their rows.
assert all((movement, pointwise, reductions, windows))


def find(target: Any) -> Row | None:
    """The row of a node's target."""
    return ROWS.get(str(target)) if isinstance(target, torch._ops.OpOverload) else None


def claimed() -> dict[str, Row]:
    """All rows, by the name of the op."""
    return dict(sorted(ROWS.items()))
