"""Breakdown of the time of a template, by the model that chooses tiles.

Times are microseconds of the model, never measurements.  ``docs/performance.md`` has the formulas, and how far they
are from times measured on silicon.
"""

from __future__ import annotations

from autofuse.implgraph.ir.frozen import frozen
from autofuse.schedule.search.bound import BoundForm, chip_figures
from autofuse.targets import TargetSpec

__all__ = ["Cost", "Tiling", "cost_of"]


@frozen
class Cost:
    """Modelled microseconds.

    Attributes:
        mte2, vector, mte3, scalar: how long the pipe is busy on the core with the most to do.
        gm: how long GM takes for the traffic of all cores.
        pipeline: of a core, with what queues of this depth leave unhidden.
        exposed: beside GM or the pipeline's steady state: the first load and the last calls and stores.
        start: of the kernel.
        sync: barriers.
        total: of the kernel.
        limit: what the time is spent on, such as ``GM`` or ``vector``.
    """

    mte2: float
    vector: float
    mte3: float
    scalar: float
    gm: float
    pipeline: float
    exposed: float
    start: float
    sync: float
    total: float
    limit: str

    @property
    def bound(self) -> float:
        """The time below which this work cannot be done on this chip: its busiest resource, and the start."""
        return self.start + max(self.gm, self.mte2, self.vector, self.mte3)


@frozen
class Tiling:
    """Tile length, tiles of one core, cores, and the modelled cost."""

    tile: int
    per_core: int
    cores: int
    cost: Cost


def cost_of(
    form: BoundForm, target: TargetSpec, tile: int, per_core: int, *, barriers: int = 0
) -> Cost:
    """Return the modelled time of a choice: the head of a kernel, and the cycles that choices are compared by.

    Args:
        form: a template for given sizes.
        target: the chip.
        tile: length of a tile.
        per_core: tiles of one core.
        barriers: times that all cores meet before it.
    """
    us = 1.0 / target.clock_mhz
    at = form.shares(chip_figures(target), tile, per_core)
    pipes = {
        "MTE2": us * (at.once.load + per_core * at.tile.load),
        "vector": us * (at.once.vector + per_core * at.tile.vector),
        "MTE3": us * (at.once.store + per_core * at.tile.store),
        "scalar": us * (at.once.scalar + per_core * at.tile.scalar),
    }
    start = target.kernel_head_us + us * target.model.core_start * at.cores
    sync = us * barriers * target.sync_all
    pipeline = us * (at.before + at.exposed + per_core * at.period + at.last)
    total = target.kernel_head_us + us * at.cycles + sync
    by_gm = us * (at.gm + at.rest) >= pipeline
    return Cost(
        mte2=pipes["MTE2"],
        vector=pipes["vector"],
        mte3=pipes["MTE3"],
        scalar=pipes["scalar"],
        gm=us * at.gm,
        pipeline=pipeline,
        exposed=us * (at.rest if by_gm else at.before + at.exposed),
        start=start,
        sync=sync,
        total=total,
        limit=_limit(start, sync, total - start - sync, by_gm, pipes, us * at.last),
    )


def _limit(
    start: float, sync: float, body: float, by_gm: bool, pipes: dict[str, float], last: float
) -> str:
    """Return what most of the time is spent on: start, barriers, GM, a pipe that is busy nearly always, or waiting.

    ``last``: what last tiles add; it is said where it is a fourth.
    """
    if start + sync >= body:
        return "start" if start >= sync else "barriers"
    if by_gm:
        return "GM"
    longest = max(pipes, key=lambda k: pipes[k])
    if pipes[longest] >= 0.8 * body:
        return longest
    return "last tile" if 4 * last >= body else "queue depth"
