"""The costs of a template with an open tile length: loop bodies, their copies and their calls.

:func:`~autofuse.schedule.search.cost_form.cost_form` computes them from an ImplGraph, ``bound`` binds them to sizes.
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

    #: From memory; repeated reads come from L2.
    READ = 0
    #: From L2: the same cores read or wrote the bytes before.
    AGAIN = 1
    #: From memory, bypassing L2 if L2 cannot hold the kernel's data.
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
        """Return both parts times ``factor``."""
        step = self.step if self.step is ZERO else self.step * factor
        return Affine(self.base * factor, step)

    def exprs(self) -> tuple[Expr, Expr]:
        """Return both parts."""
        return self.base, self.step


SINGLE = Affine(ONE, ZERO)


@frozen
class CopyForm:
    """Equal Loads or Stores of one body.

    Attributes:
        body: index of the body.
        nodes: their names.
        commands, rows: numbers for a whole tile.
        row_bytes: bytes of a row; times ``rows`` those of the copy.
        apart: distances of rows in GM, in bytes, as (size of the axis or None, distance); only axes longer than 1
            count.
        tiles_apart: distances between tiles in bytes per element of t, if there is more than one tile.
        distinct: touched bytes, each counted once; 0 for the route ``AGAIN``.
        table, names: number of positions that an index may select, 0 without one, and elements of that index.
        varying: sizes of the loop axes along which it varies, except that of the tiles, ...
        varies_by_tile: ... and True if it varies along that one.
        cycles: cycles of its pipe as a weighted sum, if they do not follow from commands, rows and bytes.
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
    """Vector calls of one body: cycles as weighted sums, times 1 + log2(``along``), rounded up."""

    body: int
    cycles: tuple[tuple[float, Affine], ...]
    along: Affine = SINGLE

    def exprs(self) -> tuple[Expr, ...]:
        """Return every expression in it."""
        return (*(e for _, a in self.cycles for e in a.exprs()), *self.along.exprs())


@frozen
class BodyForm:
    """One loop body.

    Attributes:
        ops: names of its vector nodes.
        heads: cycles of its element-wise calls that do not depend on their length.
        scalar: cycles of the scalar unit, ...
        places: ... further ones, as a weighted sum, to read positions from an index, ...
        held: ... and to read the first of them while loads wait; 0 where no index is loaded.
        buffers: number per queue.
        chained: True if loaded data are stored from the same buffer.
        loads: True if it waits for a first byte.
        staggered: True if every core starts at a different step.
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
        kinds: rows of the target's vector table that its calls use.
    """

    bodies: tuple[BodyForm, ...]
    copies: tuple[CopyForm, ...]
    calls: tuple[CallForm, ...]
    kinds: frozenset[str] = frozenset()

    @property
    def reads_again(self) -> bool:
        """True if a core loads data that were loaded or written before, as the second pass over long rows does."""
        return any(c.route is Route.AGAIN for c in self.copies)

    def sizes(self) -> tuple[Expr, ...]:
        """Return the sizes not bounded by a legal tile: bytes of tensors, and distances in them."""
        out: list[Expr] = []
        for c in self.copies:
            out += [c.distinct * c.count, *(d for _, d in c.apart), *c.tiles_apart]
            out += [size for size, _ in c.apart if size is not None]
        return tuple(dict.fromkeys(out))

    def exprs(self) -> tuple[Expr, ...]:
        """Return every expression in it, in a fixed order."""
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
