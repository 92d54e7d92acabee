"""Instructions that the functions of ``device_templates/`` issue: how many, of what kind, over how many elements.

A reduction, broadcast, running sum, transposition or pick is one node and one call in the text of a kernel, but many
instructions.  ``schedule.functions`` has what the headers do, in closed form and in the terms of this module:
``issued`` gives it for a node as a function of its extents, for the cost model with the length of the tile left open
(``schedule.search.cost_form``).  Timed mode prices what a run really issues; ``benchmarks/model/timed_vs_model.py``
compares.

With all extents known, the forms are exact but for single instructions.  Where the tile is left open, roundings along
it count on average; which of two numbers is the lesser one, and logarithms, are those of a typical tile, with as
many elements as the largest one has at typical sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from autofuse.implgraph.expr.expression import (
    ONE,
    CeilDiv,
    Expr,
    FloorDiv,
    Func,
    Max,
    Min,
    align_up,
    const,
    divide_exact,
    product,
)
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.graph import ImplGraph, Node, TilingSpec
from autofuse.schedule.cost.cost import Conflict
from autofuse.targets import Architecture

__all__ = [
    "NOTHING",
    "ROWS",
    "SINGLE",
    "Amount",
    "Chip",
    "Issued",
    "Tile",
    "in_part",
    "open_tile",
    "reaches",
]

#: As in the headers: rows of a transposition.
ROWS = 16


@frozen
class Amount:
    """A sum of products: each part is a weight times an expression."""

    parts: tuple[tuple[float, Expr], ...]

    @classmethod
    def of(cls, e: Expr | int, weight: float = 1.0) -> Amount:
        """``weight`` times ``e``."""
        return cls(((weight, const(e) if isinstance(e, int) else e),))

    def __add__(self, other: Amount) -> Amount:
        return Amount((*self.parts, *other.parts))

    def __mul__(self, other: Amount) -> Amount:
        return Amount(tuple((w * v, e * f) for w, e in self.parts for v, f in other.parts))

    def times(self, factor: Expr | int, weight: float = 1.0) -> Amount:
        """Every part times ``factor`` and ``weight``."""
        return Amount(tuple((w * weight, e * factor) for w, e in self.parts))

    def evaluate(self, env: Mapping[str, int]) -> float:
        """The number."""
        return sum(w * e.evaluate(env) for w, e in self.parts)


NOTHING, SINGLE = Amount(()), Amount.of(ONE)


@frozen
class Issued:
    """Instructions of one kind.

    Attributes:
        kind: row of the target's vector table.
        calls: instructions, each with its head.
        elements: that all of them go over, whole repeats where an instruction has repeats.
        waits: times that the vector unit waits for a result of the ones before.
        pairs: two operands are read, as far apart as the rows of one tensor are: in the same banks, as a rule.
        along: all of this happens 1 + log2(``along``) times, rounded up, ...
        times: ... and as often as this says.
    """

    kind: str
    calls: Amount
    elements: Amount
    waits: float = 0.0
    pairs: bool = False
    along: Expr = ONE
    times: Expr = ONE

    @property
    def conflict(self) -> Conflict:
        """Conflict of the operands in the banks of UB."""
        return Conflict.SOURCES if self.pairs else Conflict.NONE


@frozen
class Tile:
    """The length of a tile: its symbol, and typical values of all symbols, that one included.

    ``least``: what divides it, ``most``: what it does not exceed, where the template says so; None for no limit.
    """

    name: str
    typical: Mapping[str, int]
    least: int = 1
    most: int | None = None


def open_tile(spec: TilingSpec, typical: Mapping[str, int]) -> Tile:
    """The length of a template's tiles, left open.

    Args:
        spec: of the template.
        typical: values of the symbols of the graph, and of a tile; a shorter one than any legal one becomes the least.
    """
    # A tile is a multiple of the granule, unless the axis may be shorter than that.
    longer = [c.at_least or 1 for c in spec.conditions if c.value == spec.opened.extent]
    least = spec.opened.granule if max(longer, default=1) >= spec.opened.granule else 1
    most = None if spec.opened.most is None else spec.opened.most.as_int()
    return Tile(
        spec.opened.symbol,
        {**typical, spec.opened.symbol: max(typical[spec.opened.symbol], least)},
        least,
        most,
    )


class Chip:
    """The chip where a node calls a function of the headers; names of arguments are those of the headers.

    Attributes:
        n: the node.
        impl: its template.
        extent: axis -> its extent in a tile.
        tile: the length of a tile, which stays in the result; or values of all symbols.
        arch: says how long blocks and repeats are, and how many repeats an instruction has.
    """

    def __init__(
        self,
        n: Node,
        impl: ImplGraph,
        named: Mapping[str, Node],
        extent: Callable[[int], Expr],
        tile: Tile | Mapping[str, int],
        arch: Architecture,
    ) -> None:
        self.n, self.impl, self.named, self.extent, self.tile = n, impl, named, extent, tile
        self.arch = arch
        dtype = n.y.dtype
        self.size = dtype.itemsize
        self.float = dtype.kind == "f"
        self.lanes = max(arch.vector_bytes // self.size, 1)
        self.block = max(arch.block_bytes // self.size, 1)

    def operand(self, i: int) -> Node:
        """An input of the node."""
        return self.named[self.n.inputs[i]]

    def value(self, e: Expr) -> Expr:
        """An extent: a number where all symbols are known, else without roundings of the length of the tile.

        Tiles are multiples of a granule, so that a row of them starts at a 32-byte address.
        """
        if not isinstance(self.tile, Tile):
            return const(e.evaluate(self.tile))
        for a in e.atoms():
            if isinstance(a, Func) and a.name == "CeilDiv" and self.is_open(a.args[0]):
                rest = divide_exact(e, align_up(*a.args))
                return e if rest is None else self.value(rest * a.args[0])
        return e

    def extents(self, axes: Iterable[int]) -> Expr:
        """Elements along some axes."""
        return self.value(product(self.extent(a) for a in axes))

    def elements(self) -> Expr:
        """Elements of the result, rows with their padding."""
        y = self.n.y
        if not y.vectorized_axis:
            return ONE
        return self.value(self.extent(y.vectorized_axis[0]) * y.vectorized_strides[0])

    def is_open(self, e: Expr) -> bool:
        """Return True if an extent depends on the length of the tile."""
        return isinstance(self.tile, Tile) and self.tile.name in e.symbols()

    def pieces(self, x: Expr, k: int) -> Amount:
        """``x`` over ``k``, rounded up."""
        if k == 1 or not self.is_open(x):
            return Amount.of(CeilDiv(x, k))
        if self.is_multiple(x, k):
            return Amount.of(x, 1.0 / k)
        return Amount(((1.0 / k, x), (0.5 * (k - 1) / k, ONE)))

    def is_multiple(self, x: Expr, k: int) -> bool:
        """Return True if an open extent is a multiple of ``k`` because the tile length is a multiple of its least."""
        tile = self.tile
        if not isinstance(tile, Tile) or tile.least == 1:
            return False
        none, one = (x.substitute({tile.name: const(t)}).as_int() for t in (0, tile.least))
        return none == 0 and one is not None and one % k == 0

    def typical(self, x: Expr, beside: Expr) -> Expr:
        """An extent with ``beside`` other elements in the tile, or how long it typically is."""
        if not isinstance(self.tile, Tile) or not self.is_open(x):
            return x
        elements = (x * beside).evaluate(self.tile.typical)
        return Max(FloorDiv(max(elements, 1), Max(beside, 1)), 1)

    def lesser(self, a: Expr, per_a: int, b: Expr, per_b: int) -> Amount:
        """The lesser of ``a / per_a`` and ``b / per_b``, both rounded up; one of them may be open."""
        one, other = CeilDiv(self.typical(a, b), per_a), CeilDiv(self.typical(b, a), per_b)
        if not self.is_open(a) and not self.is_open(b):
            return Amount.of(Min(one, other))
        first = reaches(other, one)
        return self.pieces(a, per_a).times(first) + self.pieces(b, per_b).times(1 - first)

    def fewer(self, rows: Expr, cols: Expr) -> Amount:
        """Instructions for rows: one for each of them, or one for every repeat of a row if these are fewer."""
        if rows == ONE:
            return SINGLE
        return self.lesser(rows, 1, cols, self.lanes)

    def repeats(self, rows: Expr, cols: Expr) -> Amount:
        """Elements of rows, each in whole repeats."""
        return self.pieces(cols, self.lanes).times(rows, self.lanes)

    def combine(self, rows: Expr, cols: Expr, parts: int, waits: float) -> Issued:
        """``CombineRows``, ``parts`` times."""
        if rows == ONE:
            return Issued("binary", Amount.of(parts), Amount.of(cols * parts), waits, True)
        if cols == self.block:
            elements = Amount.of(rows * cols * parts)
            return Issued("binary", Amount.of(2 * parts), elements, waits, True)
        elements = self.repeats(rows, cols).times(parts)
        return Issued("binary", self.fewer(rows, cols).times(parts), elements, waits, True)

    def copy(self, rows: Expr, row: Expr, times: Expr = ONE, waits: float = 0.0) -> Issued:
        """``CopyRows``, ``times`` times."""
        calls = self.fewer(rows, row)
        if rows == ONE and not self.is_open(row) and (row.as_int() or 1) % self.lanes:
            calls = Amount.of(1 if row.is_const and row.value < self.lanes else 2)
        elements = self.repeats(rows, row)
        return Issued("unary", calls.times(times), elements.times(times), waits)


def reaches(a: Expr, b: Expr) -> Expr:
    """1 where ``a`` is at least ``b``, else 0; both are positive."""
    return Min(FloorDiv(a, Max(b, 1)), 1)


def in_part(x: Issued, some: float, all_: float) -> list[Issued]:
    """Instructions of which some have operands in the same banks, and the others have not."""
    share = some / all_
    apart = Issued(x.kind, NOTHING, x.elements.times(1, 1.0 - share))
    return [replace(x, elements=x.elements.times(1, share)), apart]
