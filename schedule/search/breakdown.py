"""Breakdown of the time of a template, by the model that chooses tiles.

Times are model microseconds, never measurements.  ``docs/performance.md`` has the formulas and their deviation from
times measured on silicon.
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
        mte2, vector, mte3, scalar: busy time of the pipe on the busiest core.
        gm: time of GM for the traffic of all cores.
        pipeline: time of a core, including the parts that queues of this depth do not overlap.
        exposed: the first load and the last calls and stores, in addition to GM or the pipeline's steady state.
        start: start of the kernel.
        sync: barriers.
        total: time of the kernel.
        limit: the bottleneck, such as ``GM`` or ``vector``.
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
        """Lower bound of the time on this chip: the busiest resource, and the start."""
        return self.start + max(self.gm, self.mte2, self.vector, self.mte3)


@frozen
class Tiling:
    """Tile length, tiles per core, cores, and the modelled cost."""

    tile: int
    per_core: int
    cores: int
    cost: Cost


def cost_of(
    form: BoundForm, target: TargetSpec, tile: int, per_core: int, *, barriers: int = 0
) -> Cost:
    """Return the modelled time of a choice: the kernel head, and the cycles by which choices are compared.

    Args:
        form: a template for given sizes.
        target: the chip.
        tile: length of a tile.
        per_core: tiles per core.
        barriers: number of barriers before it.
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
    """Return the bottleneck: start, barriers, GM, a pipe that is nearly always busy, or waiting.

    ``last``: the part due to last tiles; mentioned if it is at least a fourth.
    """
    if start + sync >= body:
        return "start" if start >= sync else "barriers"
    if by_gm:
        return "GM"
    longest = max(pipes, key=lambda k: pipes[k])
    if pipes[longest] >= 0.8 * body:
        return longest
    return "last tile" if 4 * last >= body else "queue depth"
