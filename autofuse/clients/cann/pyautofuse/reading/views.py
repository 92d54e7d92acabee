"""Tensors in memory, described by clients with sizes, strides and an offset, and their equivalents as ops."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from autofuse.clients.cann.pyautofuse.reading.emission import Emission
from autofuse.clients.cann.pyautofuse.reading.symbol_ranges import least_value
from autofuse.frontends.builder import Shape
from autofuse.frontends.layout import contiguous
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, ExprError, divide_exact, product
from autofuse.implgraph.ir.fusion import Tensor

__all__ = ["Place", "Stored", "apart", "memory_order", "view_of"]

_ANY = (1, 1 << 31)


@dataclass(frozen=True, slots=True)
class Place:
    """Layout of a tensor: element ``(i, j, ...)`` is at ``offset + i * strides[0] + j * strides[1] + ...``."""

    sizes: Shape
    strides: Shape
    offset: Expr = ZERO

    @property
    def needed(self) -> tuple[tuple[Expr, Expr], ...]:
        """(size, stride) of the dimensions that are not 1."""
        both = zip(self.sizes, self.strides, strict=True)
        return tuple((n, s) for n, s in both if n != 1)

    def normal(self) -> Place:
        """Return the layout with row-major strides for dimensions of size 1, where strides are meaningless."""
        if self.dense:
            return Place(self.sizes, contiguous(self.sizes), self.offset)
        step, out = ONE, []
        for n, s in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            out.append(step if n == 1 else s)
            step = out[-1] * n
        return Place(self.sizes, tuple(reversed(out)), self.offset)

    @property
    def dense(self) -> bool:
        """True if the layout is row-major without gaps."""
        step = ONE
        for n, s in reversed(self.needed):
            if s != step:
                return False
            step = step * n
        return True

    @property
    def last(self) -> Expr:
        """Offset of the last element, if the tensor is not empty."""
        at = self.offset
        for n, s in self.needed:
            at = at + (n - 1) * s
        return at


@dataclass(frozen=True, slots=True)
class Stored:
    """Tensor written by a Store; its dimensions are in the order of ``place``."""

    tensor: Tensor
    place: Place


def memory_order(place: Place) -> list[int]:
    """Return the dimensions by stride, largest first; dimensions of size 1 keep their position."""
    where = [i for i, n in enumerate(place.sizes) if n != 1]
    ranked = iter(sorted(where, key=lambda i: -_sample(place.strides[i])))
    return [next(ranked) if n != 1 else i for i, n in enumerate(place.sizes)]


def apart(place: Place) -> bool:
    """Return True if no two elements share an address, for dimensions in memory order."""
    inner = ONE
    for n, s in reversed(place.needed):
        if not _never_negative(s - inner):
            return False
        inner = (n - 1) * s + inner
    return True


def view_of(emission: Emission, stored: Stored, place: Place) -> Tensor:
    """Return the tensor that a Load at ``place`` reads from a buffer that a Store wrote.

    Raises:
        AutofuseError: AF1301, the view is not a combination of Reshape, Slice, Transpose and Broadcast.
    """
    if _same(stored.place, place):
        return emission.tensor(emission.reshape(stored.tensor, place.sizes))
    parts = _parts(stored, place) if stored.place.dense and stored.place.offset == 0 else None
    if parts is None:
        raise emission.error(
            "AF1301",
            "its load from another graph's result is not a combination of Reshape, Slice, "
            "Transpose and Broadcast",
            "sizes, strides and offset of both must match",
        )
    dims, starts, order = parts
    varying = [place.sizes[i] for i in order]
    taken = (*varying, *([ONE] * (len(dims) - len(varying))))
    found = emission.slice(emission.reshape(stored.tensor, dims), starts, taken)
    found = emission.reshape(found, tuple(varying))
    back = sorted(range(len(order)), key=lambda k: order[k])
    found = emission.transpose(found, back)
    kept = set(order)
    found = emission.reshape(
        found, tuple(n if i in kept else ONE for i, n in enumerate(place.sizes))
    )
    return emission.tensor(emission.broadcast(found, place.sizes))


def _same(a: Place, b: Place) -> bool:
    return a.needed == b.needed and a.offset == b.offset


def _parts(stored: Stored, place: Place) -> tuple[Shape, Shape, list[int]] | None:
    """Return dimensions of the stored elements, the start in each, and the dimension of ``place`` along each."""
    moving = [i for i, n in enumerate(place.sizes) if n != 1 and place.strides[i] != 0]
    order = sorted(moving, key=lambda i: -_sample(place.strides[i]))
    dims: list[Expr] = []
    starts: list[Expr] = []
    left, rest = product(stored.tensor.shape), place.offset
    for i in order:
        stride = place.strides[i]
        count = divide_exact(left, stride)
        if count is None:
            return None
        whole, rest = _entered(rest, stride)
        dims.append(count)
        starts.append(whole)
        left = stride
        if not _never_negative(count - whole - place.sizes[i]):
            return None
    if left != 1 or not order:
        dims.append(left)
        starts.append(rest)
        if not _never_negative(left - rest - 1):
            return None
    elif rest != 0:
        return None
    return tuple(dims), tuple(starts), order


def _entered(offset: Expr, stride: Expr) -> tuple[Expr, Expr]:
    """Return an offset as a number of strides and a remainder."""
    if offset.is_const and stride.is_const:
        q, r = divmod(offset.value, stride.value)
        return Expr.of(q), Expr.of(r)
    q_exact = divide_exact(offset, stride)
    return (ZERO, offset) if q_exact is None else (q_exact, ZERO)


def _sample(e: Expr) -> int:
    """Return a value that distinguishes strides: sizes are large, because strides of small ones may coincide."""
    try:
        return e.evaluate({n: 10007 + 30 * (crc32(n.encode()) % 997) for n in e.symbols()})
    except ExprError:
        return 0


def _never_negative(e: Expr) -> bool:
    try:
        return least_value(e, dict.fromkeys(e.symbols(), _ANY)) >= 0
    except ExprError:
        return False
