"""A function of ``device_templates/`` as the scheduler knows it: what it takes."""

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
        scratch: bytes that a node needs beside its operands, where the number of elements alone does not say it, as the
            row of the registry does; None, or a result of None, where there are none.
        result: bytes of its result, where they do not depend on the tile.
    """

    issues: Callable[[Chip], tuple[Issued, ...]]
    scratch: Callable[[Node, Mapping[str, Node], Layout], Expr | None] | None = None
    result: Expr | None = None
