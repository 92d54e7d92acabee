"""The functions of ``device_templates/``, by the names used in rows of the op registry.

Each module of this folder lists its functions in a table, ``FUNCTIONS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.graph import ImplGraph, Node
from autofuse.implgraph.ops.registry import lookup
from autofuse.schedule.cost.device_calls import Chip, Issued, Tile
from autofuse.schedule.functions.definition import Resources
from autofuse.targets import Architecture

__all__ = ["FUNCTIONS", "function_of", "issued"]

FUNCTIONS: dict[str, Resources] = {}
for _m in iter_modules(__path__):
    FUNCTIONS |= getattr(import_module(f"{__name__}.{_m.name}"), "FUNCTIONS", {})


@lru_cache(maxsize=1024)
def function_of(op: str) -> Resources | None:
    """Return the function that nodes of an op call; None for ops that take one chip call or none."""
    call = lookup(op).call
    return None if call is None else FUNCTIONS.get(call.api)


def issued(
    n: Node,
    impl: ImplGraph,
    named: Mapping[str, Node],
    size: Callable[[int], Expr],
    tile: Tile | Mapping[str, int],
    arch: Architecture,
) -> tuple[Issued, ...] | None:
    """Return the instructions that a vector node issues for a whole tile; None if it is one chip call.

    Args:
        n: the node.
        impl: its template.
        named: its nodes by name.
        size: axis -> its extent in a tile.
        tile: the open tile length, which stays in the result; or values of all symbols.
        arch: gives the lengths of blocks and repeats, and the repeats of an instruction.
    """
    f = function_of(n.op)
    return None if f is None else f.issues(Chip(n, impl, named, size, tile, arch))
