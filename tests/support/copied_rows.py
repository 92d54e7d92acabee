"""Rows and bytes that a DMA command of a template moves, by the cost model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from autofuse.implgraph.ir.graph import ImplGraph, Node
from autofuse.schedule.search.cost_form import cost_form
from autofuse.targets import TargetSpec

__all__ = ["Copied", "copied"]


class Copied(NamedTuple):
    """Rows of neighbours in a whole tile, commands that move them, and elements of all of them."""

    rows: int
    commands: int
    elements: int


def copied(n: Node, impl: ImplGraph, chip: TargetSpec, at: Mapping[str, int]) -> Copied:
    """Return how a Load or Store is moved with tiles of ``at[tile_size]``."""
    form = next(c for c in cost_form(impl, chip).copies if n.name in c.nodes)
    tile = at[impl.tiling.opened.symbol]
    rows, commands, row = (
        a.base.evaluate(at) + a.step.evaluate(at) * tile
        for a in (form.rows, form.commands, form.row_bytes)
    )
    return Copied(rows, commands, rows * row // n.y.dtype.itemsize)
