"""The grid of sizes, cores and UB bytes at which the templates of a graph are compared by modelled cycles.

A template that wins at none of these points is not emitted.  The grid is a pure function of graph and chip:

* sizes: typical, smallest and largest, then a sequence that fills the ranges of the symbols evenly on a logarithmic
  scale, in turn unrounded, rounded to a power of two, and odd; their number grows with that of the symbols, up to a
  limit.
* each with all cores and all of UB; some also, in turn, with half of the cores or one, and with half of UB.  A graph of
  known sizes has its one size with each of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from autofuse.implgraph.expr.sizes import Sizes
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import Symbol
from autofuse.implgraph.ir.graph import HintGraph
from autofuse.schedule.axes.tile_limits import sample_env
from autofuse.targets import TargetSpec

__all__ = ["Point", "grid"]

#: Number of sizes of the grid: with one symbol, for each further one, and at most.
FIRST, FURTHER, MOST = 10, 7, 24
#: Bases of the sequence, one per symbol in turn.
PRIMES = (2, 3, 5, 7, 11, 13)
#: Steps per octave.
PARTS = 64


@frozen
class Point:
    """Sizes of all symbols, and the resources granted by a call.

    Attributes:
        ub: bytes of UB; None for all.
        cores: None for all.
    """

    sizes: Mapping[str, int]
    ub: int | None = None
    cores: int | None = None

    @property
    def limited(self) -> bool:
        """True if less than the whole chip is granted."""
        return self.ub is not None or self.cores is not None

    def includes(self, other: Point) -> bool:
        """Return True if this point grants no less than another, for the same sizes."""
        ub = self.ub is None or self.ub == other.ub
        cores = self.cores is None or (other.cores is not None and self.cores >= other.cores)
        return ub and cores and self.sizes == other.sizes


def grid(hint: HintGraph, target: TargetSpec) -> tuple[Point, ...]:
    """Return the points of a graph on a chip; the first one has typical sizes and the whole chip.

    Args:
        hint: any form of the graph.
        target: the chip.
    """
    sizes = list(map(Sizes, _sizes(hint)))
    half = target.ub_usable // 2
    some = max(target.aiv_cores // 2, 1)
    grants = ((None, some), (None, 1), (half, None), (half, some), (half, 1))
    limited = (Point(sizes[k % len(sizes)], *grant) for k, grant in enumerate(grants))
    return (*map(Point, sizes), *limited)


def _sizes(hint: HintGraph) -> list[dict[str, int]]:
    typical = sample_env(hint)
    if not hint.symbols:
        return [typical]
    count = min(FIRST + FURTHER * (len(hint.symbols) - 1), MOST)
    found = [typical, *itertools.islice(_spread(hint.symbols), count - 1)]
    return [sizes for k, sizes in enumerate(found) if sizes not in found[:k]]


def _spread(symbols: Sequence[Symbol]) -> Iterator[dict[str, int]]:
    """Yield the smallest sizes, the largest, then the requested number, spread evenly on a logarithmic scale."""
    yield {s.name: s.min for s in symbols}
    yield {s.name: s.max for s in symbols}
    k = 0
    while True:
        k += 1
        sizes = {}
        for i, s in enumerate(symbols):
            least, most = _place(max(s.min, 1)), _place(max(s.max, 1))
            digits, end = _reversed(k, PRIMES[i % len(PRIMES)])
            n = _size(least + (most - least) * digits // end)
            n = (n, 1 << (n.bit_length() - 1), n | 1)[k % 3]
            sizes[s.name] = min(max(n, s.min), s.max)
        yield sizes


def _place(n: int) -> int:
    """Return the position of a size on the logarithmic scale: its octave and the fraction of that, in ``PARTS``."""
    octave = n.bit_length() - 1
    return octave * PARTS + (n * PARTS >> octave) - PARTS


def _size(place: int) -> int:
    """Return the size at a position."""
    octave, part = divmod(place, PARTS)
    return (PARTS + part << octave) // PARTS


def _reversed(k: int, base: int) -> tuple[int, int]:
    """Return the reversed digits of ``k`` and their bound; their quotient is a term of the van der Corput sequence."""
    digits, end = 0, 1
    while k:
        k, digit = divmod(k, base)
        digits, end = digits * base + digit, end * base
    return digits, end
