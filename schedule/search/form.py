"""The costs of a template, with the length of a tile left open: loop bodies, their copies and their calls.

:func:`~autofuse.schedule.search.cost_form.cost_form` reads them off an ImplGraph, ``bound`` binds them to sizes.
"""

from __future__ import annotations

from enum import IntEnum

from autofuse.implgraph.expr.expression import ONE, ZERO, Expr
from autofuse.implgraph.ir.frozen import frozen

__all__ = [
    "SINGLE",
    "Affine",
    "BodyForm",
    "CallForm",
    "CopyForm",
    "CostForm",
    "Place",
    "Route",
]


class Place(IntEnum):
    """Place of a loop body: once per core, for every tile, in every step of the reduce loop."""

    ONCE = 0
    TILE = 1
    STEP = 2


class Route(IntEnum):
    """Route of the bytes of a copy."""

    #: From memory; what is read more than once comes from L2.
    READ = 0
    #: Read before by the same cores, or written by them: from L2.
    AGAIN = 1
    #: From memory, bypassing L2 where that cannot hold what the kernel asks it to.
    STREAM = 2
    #: Written to GM.
    WRITE = 3


@frozen
class Affine:
    """``base + step * t`` with t the length of a tile; neither contains t."""

    base: Expr
    step: Expr

    def __add__(self, other: Affine) -> Affine:
        return Affine(self.base + other.base, self.step + other.step)

    def times(self, factor: Expr | int) -> Affine:
        """Both parts times ``factor``."""
        step = self.step if self.step is ZERO else self.step * factor
        return Affine(self.base * factor, step)

    def exprs(self) -> tuple[Expr, Expr]:
        """Both parts."""
        return self.base, self.step


SINGLE = Affine(ONE, ZERO)


@frozen
class CopyForm:
    """Loads or Stores of one body that do the same.

    Attributes:
        body: index of the body.
        nodes: their names.
        commands, rows: of a whole tile.
        row_bytes: bytes of a row; times ``rows`` those of the copy.
        apart: distances of rows in GM, in bytes, as (size of the axis or None, distance); those of axes with more than
            one index count.
        tiles_apart: distances in bytes per element of t, where there is more than one tile.
        distinct: bytes that are touched, each counted once; 0 for the route ``AGAIN``.
        table, names: places that an index may name, 0 without one, and elements of that index.
        varying: sizes of the axes of loops along which it varies, beside that of the tiles, ...
        varies_by_tile: ... and whether along that one.
        cycles: of its pipe as a weighted sum, where they do not follow from commands, rows and bytes.
    """

    body: int
    route: Route
    nodes: tuple[str, ...]
    commands: Affine
    rows: Affine
    row_bytes: Affine
    apart: tuple[tuple[Expr | None, Expr], ...]
    tiles_apart: tuple[Expr, ...]
    distinct: Expr
    varying: tuple[Expr, ...]
    varies_by_tile: bool
    cycles: tuple[tuple[float, Affine], ...] = ()
    table: Expr = ZERO
    names: Expr = ZERO

    @property
    def count(self) -> int:
        """Number of these Loads or Stores."""
        return len(self.nodes)


@frozen
class CallForm:
    """Vector calls of one body: cycles as weighted sums, 1 + log2(``along``) times, rounded up."""

    body: int
    cycles: tuple[tuple[float, Affine], ...]
    along: Affine = SINGLE

    def exprs(self) -> tuple[Expr, ...]:
        """Every expression in it."""
        return (*(e for _, a in self.cycles for e in a.exprs()), *self.along.exprs())


@frozen
class BodyForm:
    """One loop body.

    Attributes:
        ops: names of its vector nodes.
        heads: cycles that its element-wise calls take whatever their length.
        scalar: cycles of the scalar unit, ...
        places: ... beside them, as a weighted sum, to read places from an index, ...
        held: ... and to read the first of them while loads wait; 0 where no index is loaded.
        buffers: of each queue.
        chained: what is loaded is stored from the same buffer.
        loads: whether it waits for a first byte.
        staggered: whether every core starts at another step.
    """

    place: Place
    ops: tuple[str, ...]
    heads: float
    scalar: float
    buffers: int
    chained: bool
    loads: bool
    staggered: bool = False
    held: float = 0.0
    places: tuple[tuple[float, Affine], ...] = ()


@frozen
class CostForm:
    """A template's costs, without barriers.

    Attributes:
        bodies, copies, calls: in a fixed order.
        kinds: rows of the target's vector table that its calls take.
    """

    bodies: tuple[BodyForm, ...]
    copies: tuple[CopyForm, ...]
    calls: tuple[CallForm, ...]
    kinds: frozenset[str] = frozenset()

    @property
    def reads_again(self) -> bool:
        """True if a core loads what was loaded or written before, as the second pass over long rows does."""
        return any(c.route is Route.AGAIN for c in self.copies)

    def sizes(self) -> tuple[Expr, ...]:
        """Return the sizes that a legal tile does not bound: bytes of tensors, and distances in them."""
        out: list[Expr] = []
        for c in self.copies:
            out += [c.distinct * c.count, *(d for _, d in c.apart), *c.tiles_apart]
            out += [size for size, _ in c.apart if size is not None]
        return tuple(dict.fromkeys(out))

    def exprs(self) -> tuple[Expr, ...]:
        """Every expression in it, in a fixed order."""
        out: list[Expr] = []
        for c in self.copies:
            for a in (c.commands, c.rows, c.row_bytes):
                out += a.exprs()
            out += [c.distinct, c.table, c.names, *c.varying, *c.tiles_apart]
            out += [e for _, a in c.cycles for e in a.exprs()]
            out += [e for pair in c.apart for e in pair if e is not None]
        for call in self.calls:
            out += call.exprs()
        out += [e for b in self.bodies for _, a in b.places for e in a.exprs()]
        return tuple(out)
