"""Tensors written by several Stores: the pieces cover the tensor, and no two of them overlap.

A piece is an offset and a list of (size, stride), outermost first.  Pieces cover ``[0, n)`` exactly once if, sorted by
offset, each begins where the previous ones end: a piece without gaps covers as many elements as it has; pieces with
rows S apart, m rows each, cover m * S together if one row of each covers S.  Pieces with more rows continue after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autofuse.codegen.proofs.model import Finding
from autofuse.codegen.proofs.prover import Fact, Prover
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, const, divide_exact, product
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.axes.result import ScheduleResult

__all__ = ["pieces_cover_their_output"]

#: Value of every symbol for sorting pieces: a prime, so that a remainder is not empty.
_SAMPLE = 997
#: Most pieces and rows of pieces to examine per tensor; beyond them nothing is proved.
_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class _Piece:
    name: str
    offset: Expr
    dims: tuple[tuple[Expr, Expr], ...]

    def elements(self) -> Expr:
        return product(size for size, _ in self.dims)

    def is_run(self) -> bool:
        """Return True if the elements are contiguous."""
        return not self.dims or (len(self.dims) == 1 and self.dims[0][1] == 1)


def pieces_cover_their_output(graph: FusionGraph, r: ScheduleResult) -> Iterator[Finding]:
    """The pieces of an output, or of a workspace, written by several Stores are a partition of it."""
    prover = Prover({s.name: Fact(s.min, max(s.max, 1)) for s in graph.symbols})
    stores: dict[int, list[Node]] = {}
    for o in r.hint.ops("Output"):
        stores.setdefault(o.number("index"), []).append(r.hint.node(o.inputs[0]))
    for index, written in stores.items():
        if len(written) < 2:
            continue
        out = graph.outputs[index]
        elements = product(graph.tensors[out.tensor].shape)
        yield from _check(prover, written, elements, f"output {out.name}")
    for w in r.hint.ops("Workspace"):
        if len(w.inputs) > 1:
            written = [r.hint.node(x) for x in w.inputs]
            elements = w.size("size")
            yield from _check(prover, written, elements, w.name)


def _check(prover: Prover, written: Sequence[Node], elements: Expr, what: str) -> Iterator[Finding]:
    pieces = [_piece(n) for n in written]
    if not _partition(prover, pieces, elements, [_STEPS]):
        names = ", ".join(p.name for p in pieces)
        yield Finding(
            f"{names} write every element of {what} once",
            pieces[0].name,
            _counterexample(pieces, elements),
        )


def _piece(n: Node) -> _Piece:
    """Return the elements that a Store writes; its axes may be in another order than those of the tensor."""
    dims: list[tuple[Expr, Expr]] = []
    axes = zip(n.y.repeats, n.y.strides, strict=True)
    for size, stride in sorted(axes, key=lambda row: -_at_sample(row[1])):
        if size == 1:
            continue
        if dims and dims[-1][1] == stride * size:
            dims[-1] = (dims[-1][0] * size, stride)
        else:
            dims.append((size, stride))
    return _Piece(n.name, n.y.offset, tuple(dims))


def _at_sample(e: Expr) -> int:
    return e.evaluate(dict.fromkeys(e.symbols(), _SAMPLE))


def _partition(prover: Prover, pieces: Sequence[_Piece], elements: Expr, steps: list[int]) -> bool:
    """Return True if the pieces provably cover ``[0, elements)`` exactly once; ``steps``: remaining budget."""
    left = sorted(pieces, key=lambda p: _at_sample(p.offset))
    end = ZERO
    while left:
        steps[0] -= 1
        if steps[0] < 0:
            return False
        first = left[0]
        if not prover.equal(first.offset, end):
            return False
        if first.is_run():
            end = end + first.elements()
            left = left[1:]
            continue
        pitch = _pitch(left)
        window = _at_sample(end + pitch)
        behind = [p for p in left if _at_sample(p.offset) >= window]
        here: list[_Piece] = []
        for p in left:
            if _at_sample(p.offset) < window:
                folded, *rest = _folded(p, pitch)
                here.append(folded)
                behind += rest
        rows = min((_rows(p, pitch) for p in here), key=_at_sample)
        if not all(prover.nonneg(_rows(p, pitch) - rows) for p in here):
            return False
        inner = [_Piece(p.name, p.offset - end, _row(p, pitch)) for p in here]
        # Other pieces between the rows would overlap or leave a gap, and fail this proof.
        if not _partition(prover, inner, pitch, steps):
            return False
        end = end + rows * pitch
        behind += [_behind(p, pitch, rows) for p in here if _rows(p, pitch) != rows]
        left = sorted(behind, key=lambda p: _at_sample(p.offset))
    return prover.equal(end, elements)


def _pitch(left: Sequence[_Piece]) -> Expr:
    """Return the row pitch of the first piece, or the larger one of a piece between two of its rows."""
    pitch, start = left[0].dims[0][1], _at_sample(left[0].offset)
    while True:
        window = start + _at_sample(pitch)
        others = [p.dims[0][1] for p in left if p.dims and _at_sample(p.offset) < window]
        largest = max(others, key=_at_sample)
        if _at_sample(largest) <= _at_sample(pitch):
            return pitch
        pitch = largest


def _folded(p: _Piece, pitch: Expr) -> list[_Piece]:
    """Return the piece with rows ``pitch`` apart, if its own rows fill these, and the rest of it."""
    if not p.dims:
        return [p]
    (size, stride), inner = p.dims[0], p.dims[1:]
    part = divide_exact(pitch, stride)
    if part is None or part == 1:
        return [p]
    rows = divide_exact(size * stride, pitch)
    if rows is not None:
        dims = ((rows, pitch), (part, stride), *inner)
        return [p if rows == 1 else _Piece(p.name, p.offset, dims)]
    known, each = size.as_int(), part.as_int()
    if known is None or each is None or known < each:
        return [p]
    whole, left = divmod(known, each)
    dims = ((const(whole), pitch), (part, stride), *inner)
    first = _Piece(p.name, p.offset, dims if whole > 1 else dims[1:])
    return [first, _behind(p, stride, const(known - left))]


def _rows(p: _Piece, pitch: Expr) -> Expr:
    """Return the number of rows with pitch ``pitch``."""
    return p.dims[0][0] if p.dims and p.dims[0][1] == pitch else ONE


def _row(p: _Piece, pitch: Expr) -> tuple[tuple[Expr, Expr], ...]:
    return p.dims[1:] if p.dims and p.dims[0][1] == pitch else p.dims


def _behind(p: _Piece, pitch: Expr, rows: Expr) -> _Piece:
    """Return the piece without its first ``rows`` rows."""
    left = p.dims[0][0] - rows
    first = ((left, pitch),) if left != 1 else ()
    return _Piece(p.name, p.offset + rows * pitch, (*first, *p.dims[1:]))


def _counterexample(pieces: Sequence[_Piece], elements: Expr) -> bool:
    """Return True if all sizes are known and the pieces are not a partition."""
    symbols = elements.symbols().union(*(p.offset.symbols() for p in pieces))
    symbols = symbols.union(*(s.symbols() | t.symbols() for p in pieces for s, t in p.dims))
    if symbols or elements.value > 1 << 16:
        return False
    seen: list[int] = []
    for p in pieces:
        found = [p.offset.value]
        for size, stride in p.dims:
            found = [f + i * stride.value for f in found for i in range(size.value)]
        seen += found
    return sorted(seen) != list(range(elements.value))
