"""The scheduler's description of a ``device_templates/`` function: the resources it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.axes.layout import Layout
from autofuse.schedule.cost.device_calls import Chip, Issued

__all__ = ["Resources"]


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of the chip that a function takes.

    Attributes:
        issues: the instructions for the node that a :class:`Chip` holds.
        scratch: bytes that a node needs in addition to its operands, where they depend on more than the number of
            elements (otherwise the registry row gives them); None, or a result of None, for none.
        result: bytes of its result, if independent of the tile.
    """

    issues: Callable[[Chip], tuple[Issued, ...]]
    scratch: Callable[[Node, Mapping[str, Node], Layout], Expr | None] | None = None
    result: Expr | None = None
