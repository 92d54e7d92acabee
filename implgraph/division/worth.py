"""Choice of the forms of a graph to propose, by the only estimate of time made before scheduling.

Lowering proposes forms, and the cost model decides: in the scheduler for known sizes, in the host function for the
sizes of a call.  Each form takes as long to lower and schedule as the graph itself, and each reduction may be divided
or not, so unpromising forms are dropped here, by bytes and barriers alone.  Vector calls and UB are ignored, so the
bounds are wide wherever another stage makes the final choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from autofuse.implgraph.expr.expression import Expr, product
from autofuse.targets import TargetSpec

__all__ = ["GAIN", "LINE", "ROW", "Sizes", "Worth", "blocks_of", "gather_cycles", "proposals"]

#: Elements of a row that a DMA command moves efficiently: cores share kept neighbours in blocks of this length.
ROW = 128
#: Block length for running sums: cores share rows in whole cache lines.
LINE = 32
#: Maximum parts per core: more parts balance the work better but leave more to reduce in the second phase.
_ROUNDS = 4
#: Modelled time of a running sum in UB relative to the time in which a core loads its operand.
_SUMS = 1.75
#: Minimum ratio of the time of one phase to that of two for a division: without a doubt, where nothing else decides,
#: where the host chooses for the sizes of a call, and where the scheduler compares by the model.
_SURE_GAIN, GAIN, _MAY_GAIN, _MIGHT_GAIN = 5.0, 1.5, 1.2, 0.5
#: Rows in each part of a sum of columns if their number is known at run time only: a workspace holds 1/32 of them.
PART_ROWS = 32
#: Barriers and passes over the rows that such a sum may save: the bound for proposing it.
_PASSES = 16
#: Minimum elements per result of a first step for its result to be small compared with its operand.
_FEWEST = 8


def proposals(*, symbolic: bool) -> tuple[tuple[bool, float], ...]:
    """Return the forms of a graph as (symbolic sizes are divided, least gain), the largest gain first."""
    if symbolic:
        return (False, GAIN), (True, _MAY_GAIN)
    return (False, _SURE_GAIN), (False, GAIN), (False, _MIGHT_GAIN)


@dataclass(frozen=True, slots=True)
class Sizes:
    """A reduction or running sum, with known or typical sizes.

    Attributes:
        length: elements of the axis to divide.
        blocks: number of blocks of kept neighbours, the work the cores share without parts.
        block: bytes reduced per block and element of the axis.
        kept: bytes of a block's results.
        again: the operand has other readers, which one group can serve only without a short part.
        sums: True for running sums.
    """

    length: int
    blocks: int
    block: int
    kept: int
    again: bool
    sums: bool = False


class Worth:
    """Estimator of which divisions pay on a chip, by modelled cycles of the busiest core.

    Args:
        target: the chip; gives cores, their read rates, the cost of a barrier, the length of a cache line.
    """

    def __init__(self, target: TargetSpec) -> None:
        self._target, self._cores = target, target.aiv_cores
        #: Best number of parts, by known sizes and the maximum number of parts.
        self._best: dict[tuple[Sizes, int], int] = {}

    def less(self, s: Sizes, parts: int, gain: float) -> float | None:
        """Return the cycles of two phases with so many parts; None unless one phase takes ``gain`` times as long."""
        cost = self.parted(s, parts) if parts else 0.0
        return cost if parts and self.whole(s) > gain * cost else None

    def hopeless(self, s: Sizes, gain: float) -> bool:
        """Return True if no number of parts is worth it."""
        return self.whole(s) <= gain * self.least_parted(s)

    def whole(self, s: Sizes) -> float:
        """Return the cycles of one phase; for running sums the larger of computing, and reading and writing."""
        nbytes = s.length * s.block * blocks_of(s.blocks, self._cores)
        read = nbytes / self._rate(s.blocks)
        return max(_SUMS * nbytes / self._target.load_rate, 2 * read) if s.sums else read

    def parted(self, s: Sizes, parts: int) -> float:
        """Return the cycles of two phases; for running sums: the totals of the parts, their running sum, the sums."""
        cycles = self._reduced(s, parts)
        if not s.sums:
            return cycles
        target = self._target
        each = s.length // parts * s.block * blocks_of(parts * s.blocks, self._cores)
        computed, moved = _SUMS * each / target.load_rate, 2 * each / target.load_rate_all
        return cycles + target.sync_all + max(computed, moved)

    def least_parted(self, s: Sizes) -> float:
        """Return a lower bound of the cycles of two phases: a barrier, and all bytes read by all cores."""
        nbytes = s.length * s.block * s.blocks
        return self._target.sync_all + nbytes / self._cores / self._target.load_rate_all

    def parts(self, s: Sizes, shape: Sequence[Expr], gone: Sequence[int], run: int) -> int:
        """Return the number of parts; 0 if the axis is too short.  Along the innermost axis each part is a row.

        Args:
            s: sizes, typical ones where those of the shape depend on symbols.
            shape: shape of the operand.
            gone: its reduced dimensions.
            run: the reduced dimension to divide.
        """
        cores = self._cores
        most = min(_ROUNDS * cores, s.length // (ROW if run == len(shape) - 1 else 2))
        if all(e.is_const for e in shape):
            known = self._best.get((s, most))
            if known is None:
                known = min(range(2, most + 1), key=lambda p: self._reduced(s, p), default=0)
                self._best[s, most] = known
            return known
        if not all(e.is_const for d, e in enumerate(shape) if d not in gone):
            # One core per part, for every possible block.
            return cores if cores <= most else 0

        def share(parts: int) -> Fraction:
            """Return the share of the axis that the busiest core reads."""
            return Fraction(blocks_of(parts * s.blocks, cores), parts)

        return min(range(2, most + 1), key=share, default=0)

    def dense_first(self, shape: Sequence[Expr], gone: Sequence[int], itemsize: int) -> bool:
        """Return True if a dense first step may pay: it joins rows that are not whole lines, and its result is small.

        Unknown sizes count as favourable.
        """
        if len(gone) < 2 or gone[-1] != len(shape) - 1 or any(s == 0 for s in shape):
            return False
        outer, row = product(shape[d] for d in gone[:-1]), shape[-1] * itemsize
        return (not outer.is_const or outer.value >= _FEWEST) and (
            not row.is_const or row.value % self._target.arch.cache_line_bytes != 0
        )

    def rows_per_part(self, rows: int | None, nbytes: int | None) -> int:
        """Return the rows that a core sums up for one row of a workspace; 0 if a barrier costs more than reading them.

        Args:
            rows: number of rows, a typical one if it depends on symbols; None if nothing is known of it.
            nbytes: bytes of all rows; None if unknown.
        """
        if rows is None:
            return PART_ROWS
        read = 0.0 if nbytes is None else nbytes / self._cores / self._target.load_rate_all
        few = rows < 2 * self._cores or (
            nbytes is not None and _PASSES * read < self._target.sync_all
        )
        return 0 if few else blocks_of(rows, self._cores)

    def _reduced(self, s: Sizes, parts: int) -> float:
        """Return the cycles of a reduction in two phases."""
        target, cores = self._target, self._cores
        each, rest = divmod(s.length, parts)
        rounds, alone = blocks_of(parts * s.blocks, cores), blocks_of(s.blocks, cores)
        cycles = target.sync_all + (each * s.block + s.kept) * rounds / target.load_rate_all
        left, groups = parts * s.kept, 2
        if rest:
            left, groups = left + rest * s.block + 2 * s.kept, 3
        cycles += left * alone / self._rate(s.blocks)
        cycles += groups * (target.load_head + target.store_head)
        if rest and s.again:
            cycles += s.length * s.block * s.blocks / cores / target.load_rate_all
        return cycles

    def _rate(self, blocks: int) -> float:
        """Return the bytes per cycle that a core reads; with fewer cores at work each reads faster."""
        target, cores = self._target, self._cores
        return min(target.load_rate, target.load_rate_all * cores / min(blocks, cores))


def gather_cycles(target: TargetSpec) -> float:
    """Return the cycles of one DMA command for a place that the scalar unit reads."""
    m = target.model
    return m.scalar_read + m.loop + m.load_issue


def blocks_of(count: int, size: int) -> int:
    """Return the number of blocks of ``size`` that hold ``count``."""
    return -(-count // size)
