"""Hand-written kernels in terms of the cost model: every core runs the same loops.

Their times come from the model of generated kernels (``autofuse.schedule.search.breakdown``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autofuse.schedule.cost.cost import Call, Copy, Reach, call_cycles
from autofuse.schedule.search.bound import BoundForm
from autofuse.schedule.search.breakdown import Cost, cost_of
from autofuse.schedule.search.form import Place, Route
from autofuse.targets import TargetSpec

__all__ = ["Body", "Loop", "Work", "evaluate", "form_of"]


@dataclass(frozen=True, slots=True)
class Body:
    """One iteration of a loop.

    Attributes:
        loads, calls, stores: in this order.
        buffers: buffers per queue: 1, or 2 if copies of one iteration overlap with calls of another.
        chained: the loaded buffer is also the stored one.
        scalar_reads: elements read from UB into scalar registers.
        bypass: loads bypass L2 if that is full.
    """

    loads: tuple[Copy, ...] = ()
    calls: tuple[Call, ...] = ()
    stores: tuple[Copy, ...] = ()
    buffers: int = 2
    chained: bool = False
    scalar_reads: int = 0
    bypass: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """A body that one core runs ``iterations`` times."""

    body: Body
    iterations: int


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a kernel.

    Attributes:
        cores: cores that take part.
        loops: loops of every core, one after another; the iterations of loops with several are multiples of the fewest.
        once: work of a core before its loops.
        barriers: number of barriers of all cores.
        rounds: number of times that a core runs its loops; later rounds read from L2.
    """

    cores: int
    loops: tuple[Loop, ...]
    once: Body | None = None
    barriers: int = 0
    rounds: int = 1

    @property
    def nbytes(self) -> int:
        """Bytes moved between GM and all cores, both ways."""
        return (self.cores * self.rounds) * sum(
            x.iterations * c.nbytes for x in self.loops for c in (*x.body.loads, *x.body.stores)
        )

    @property
    def bodies(self) -> tuple[Body, ...]:
        """All bodies."""
        return (*(x.body for x in self.loops), *(() if self.once is None else (self.once,)))


def evaluate(work: Work, target: TargetSpec) -> Cost:
    """Return the modelled time of a kernel, on a chip with the kernel's number of cores."""
    return cost_of(form_of(work, target), target, 1, work.rounds, barriers=work.barriers)


def form_of(work: Work, target: TargetSpec) -> BoundForm:
    """Return a kernel as a form with one tile for each round of a core."""
    steps = min((x.iterations for x in work.loops if x.iterations > 1), default=1)
    places = [
        (Place.STEP if x.iterations > 1 else Place.TILE, x.body, max(x.iterations // steps, 1))
        for x in work.loops
        if x.iterations
    ]
    places += [] if work.once is None else [(Place.ONCE, work.once, 1)]
    tiles = work.cores * work.rounds
    bodies, copies, scans = [], [], []
    for index, (place, body, times) in enumerate(places):
        head, cycles = _vector(body, target)
        scalar = target.model.loop + target.model.scalar_read * body.scalar_reads
        staggered = any(c.reach is Reach.SHARED for c in body.loads)
        about = (body.buffers, times * head, times * scalar, 0.0, body.chained, staggered)
        bodies.append((place, *about, 0.0, 0.0))
        scans.append((index, 1, 0, times * cycles, 0.0))
        runs = steps if place is Place.STEP else 1
        copies += [(index, *c) for c in _copies(body, times, runs, tiles, target)]
    return BoundForm((1, 1, tiles, steps, 1, False), 1, bodies, copies, scans)


def _vector(body: Body, target: TargetSpec) -> tuple[float, float]:
    """Return the cycles of the heads of all calls, and of their elements."""
    m = target.model
    heads, cycles = [0.0], 0.0
    for call in body.calls:
        head, elements = call_cycles(call, target)
        if elements:
            head = target.vector[call.kind].head if m.vector_fused else head
            heads.append(head + m.vector_gap * (1 if m.vector_fused else call.waits))
            cycles += elements
    return max(heads) if m.vector_fused else sum(heads), cycles


def _copies(
    body: Body, times: int, runs: int, tiles: int, target: TargetSpec
) -> Iterator[tuple[float, ...]]:
    """Yield the copies of a body, ``times`` of each in one of its ``runs`` for a tile."""
    m = target.model
    for c, stored in (*((c, False) for c in body.loads), *((c, True) for c in body.stores)):
        again, alike = c.reach is Reach.L2, c.reach in (Reach.SHARED, Reach.SAME_ORDER)
        read = Route.AGAIN if again else Route.STREAM if body.bypass else Route.READ
        own = (m.dims_issue + c.nbytes / m.dims_rate if c.permuted else 0.0, 0.0)
        sizes = (c.commands, 0, c.rows, 0, c.row_bytes, 0, c.align, 0)
        distinct = 0 if again else c.nbytes * runs * (1 if alike else tiles)
        route = Route.WRITE if stored else read
        yield (route, times, *sizes, distinct, 0, 0, not alike, False, *own)
