"""Instructions issued by the functions of ``device_templates/``: number, kind, elements.

A reduction, broadcast, running sum, transposition or pick is one node and one call in the kernel's text, but many
instructions.  ``schedule.functions`` describes the headers in closed form, in terms of this module: ``issued`` gives
the instructions of a node as a function of its extents; for the cost model the tile length stays open
(``schedule.search.cost_form``).  Timed mode prices the instructions that a run actually issues;
``benchmarks/model/timed_vs_model.py`` compares the two.

With all extents known, the forms are exact up to single instructions.  With an open tile, roundings along it are
averaged; minima and logarithms are taken at a typical tile, with as many elements as the largest one has at typical
sizes.
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

#: Rows of a transposition, as in the headers.
ROWS = 16


@frozen
class Amount:
    """A sum of products: each part is a weight times an expression."""

    parts: tuple[tuple[float, Expr], ...]

    @classmethod
    def of(cls, e: Expr | int, weight: float = 1.0) -> Amount:
        """Return ``weight`` times ``e``."""
        return cls(((weight, const(e) if isinstance(e, int) else e),))

    def __add__(self, other: Amount) -> Amount:
        return Amount((*self.parts, *other.parts))

    def __mul__(self, other: Amount) -> Amount:
        return Amount(tuple((w * v, e * f) for w, e in self.parts for v, f in other.parts))

    def times(self, factor: Expr | int, weight: float = 1.0) -> Amount:
        """Return the amount with every part times ``factor`` and ``weight``."""
        return Amount(tuple((w * weight, e * factor) for w, e in self.parts))

    def evaluate(self, env: Mapping[str, int]) -> float:
        """Return the number."""
        return sum(w * e.evaluate(env) for w, e in self.parts)


NOTHING, SINGLE = Amount(()), Amount.of(ONE)


@frozen
class Issued:
    """Instructions of one kind.

    Attributes:
        kind: row of the target's vector table.
        calls: number of instructions, each with its head.
        elements: number of elements over all instructions, in whole repeats where an instruction has repeats.
        waits: number of times that the vector unit waits for an earlier result.
        pairs: True if two operands are read that are rows of one tensor apart: usually in the same banks.
        along: everything happens 1 + log2(``along``) times, rounded up, ...
        times: ... times this factor.
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
    """An open tile length: its symbol, and typical values of all symbols, including that one.

    ``least`` divides it; ``most`` is its upper limit from the template, or None.
    """

    name: str
    typical: Mapping[str, int]
    least: int = 1
    most: int | None = None


def open_tile(spec: TilingSpec, typical: Mapping[str, int]) -> Tile:
    """Return the open length of a template's tiles.

    Args:
        spec: tiling of the template.
        typical: values of the graph symbols and of the tile length, which is raised to the shortest legal one.
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
    """Context of a node's call of a header function; arguments are named as in the headers.

    Attributes:
        n: the node.
        impl: its template.
        extent: axis -> its extent in a tile.
        tile: the open tile length, which stays in the result; or values of all symbols.
        arch: gives the lengths of blocks and repeats, and the repeats of an instruction.
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
        """Return an input of the node."""
        return self.named[self.n.inputs[i]]

    def value(self, e: Expr) -> Expr:
        """Return an extent: a number if all symbols are known, else an expression without rounding of the tile length.

        Tiles are multiples of a granule, so their rows start at 32-byte addresses.
        """
        if not isinstance(self.tile, Tile):
            return const(e.evaluate(self.tile))
        for a in e.atoms():
            if isinstance(a, Func) and a.name == "CeilDiv" and self.is_open(a.args[0]):
                rest = divide_exact(e, align_up(*a.args))
                return e if rest is None else self.value(rest * a.args[0])
        return e

    def extents(self, axes: Iterable[int]) -> Expr:
        """Return the number of elements along some axes."""
        return self.value(product(self.extent(a) for a in axes))

    def elements(self) -> Expr:
        """Return the number of elements of the result, including row padding."""
        y = self.n.y
        if not y.vectorized_axis:
            return ONE
        return self.value(self.extent(y.vectorized_axis[0]) * y.vectorized_strides[0])

    def is_open(self, e: Expr) -> bool:
        """Return True if an extent depends on the length of the tile."""
        return isinstance(self.tile, Tile) and self.tile.name in e.symbols()

    def pieces(self, x: Expr, k: int) -> Amount:
        """Return ``x`` over ``k``, rounded up."""
        if k == 1 or not self.is_open(x):
            return Amount.of(CeilDiv(x, k))
        if self.is_multiple(x, k):
            return Amount.of(x, 1.0 / k)
        return Amount(((1.0 / k, x), (0.5 * (k - 1) / k, ONE)))

    def is_multiple(self, x: Expr, k: int) -> bool:
        """Return True if an open extent is a multiple of ``k`` because the tile length is a multiple of ``least``."""
        tile = self.tile
        if not isinstance(tile, Tile) or tile.least == 1:
            return False
        none, one = (x.substitute({tile.name: const(t)}).as_int() for t in (0, tile.least))
        return none == 0 and one is not None and one % k == 0

    def typical(self, x: Expr, beside: Expr) -> Expr:
        """Return an extent, or its typical value if open, given ``beside`` elements along the tile's other axes."""
        if not isinstance(self.tile, Tile) or not self.is_open(x):
            return x
        elements = (x * beside).evaluate(self.tile.typical)
        return Max(FloorDiv(max(elements, 1), Max(beside, 1)), 1)

    def lesser(self, a: Expr, per_a: int, b: Expr, per_b: int) -> Amount:
        """Return the smaller of ``a / per_a`` and ``b / per_b``, both rounded up; one of them may be open."""
        one, other = CeilDiv(self.typical(a, b), per_a), CeilDiv(self.typical(b, a), per_b)
        if not self.is_open(a) and not self.is_open(b):
            return Amount.of(Min(one, other))
        first = reaches(other, one)
        return self.pieces(a, per_a).times(first) + self.pieces(b, per_b).times(1 - first)

    def fewer(self, rows: Expr, cols: Expr) -> Amount:
        """Return the number of instructions for rows: one per row, or one per repeat of a row if those are fewer."""
        if rows == ONE:
            return SINGLE
        return self.lesser(rows, 1, cols, self.lanes)

    def repeats(self, rows: Expr, cols: Expr) -> Amount:
        """Return the elements of rows, each in whole repeats."""
        return self.pieces(cols, self.lanes).times(rows, self.lanes)

    def combine(self, rows: Expr, cols: Expr, parts: int, waits: float) -> Issued:
        """Return the instructions of ``parts`` calls of ``CombineRows``."""
        if rows == ONE:
            return Issued("binary", Amount.of(parts), Amount.of(cols * parts), waits, True)
        if cols == self.block:
            elements = Amount.of(rows * cols * parts)
            return Issued("binary", Amount.of(2 * parts), elements, waits, True)
        elements = self.repeats(rows, cols).times(parts)
        return Issued("binary", self.fewer(rows, cols).times(parts), elements, waits, True)

    def copy(self, rows: Expr, row: Expr, times: Expr = ONE, waits: float = 0.0) -> Issued:
        """Return the instructions of ``times`` calls of ``CopyRows``."""
        calls = self.fewer(rows, row)
        if rows == ONE and not self.is_open(row) and (row.as_int() or 1) % self.lanes:
            calls = Amount.of(1 if row.is_const and row.value < self.lanes else 2)
        elements = self.repeats(rows, row)
        return Issued("unary", calls.times(times), elements.times(times), waits)


def reaches(a: Expr, b: Expr) -> Expr:
    """Return 1 if ``a`` is at least ``b``, else 0; both are positive."""
    return Min(FloorDiv(a, Max(b, 1)), 1)


def in_part(x: Issued, some: float, all_: float) -> list[Issued]:
    """Split instructions into those with operands in the same banks and the others."""
    share = some / all_
    apart = Issued(x.kind, NOTHING, x.elements.times(1, 1.0 - share))
    return [replace(x, elements=x.elements.times(1, share)), apart]
