"""Ranges for the sizes of a client, which gives none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends.builder import MAX_ELEMENTS, MAX_SIZE
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ZERO, Expr, ExprError, Func, product, sym
from autofuse.implgraph.ir.fusion import Symbol, Tensor

__all__ = ["least_value", "symbols_for"]

#: Largest minimum to try; clients compile for sizes of 2 and more if 0 or 1 would need another graph.
_MAX_MIN = 1 << 16
_MAX_BITS = 31


def symbols_for(names: tuple[str, ...], tensors: Iterable[Tensor]) -> tuple[Symbol, ...]:
    """Return the symbols with the widest ranges that all tensors allow.

    The minimum is 0, or the least value that makes no size negative.  The maximum is 2**31, or the largest power of 2
    minus 1, common to all symbols, for which every tensor has fewer than 2**48 elements, so that byte offsets fit 64
    bits.  The tiling function refuses sizes outside the ranges.

    Raises:
        AutofuseError: AF1109, there are no such ranges.
    """
    held = list(tensors)
    low = _lows(names, held)
    if not names:
        _check(held, {})
        return ()
    for bits in range(_MAX_BITS, 0, -1):
        high = MAX_SIZE if bits == _MAX_BITS else (1 << bits) - 1
        ranges = {n: (low[n], high) for n in names}
        if all(low[n] <= high for n in names) and all(_fits(t, ranges) for t in held):
            return tuple(Symbol(n, low[n], high) for n in names)
    worst = max(held, key=lambda t: len(t.shape))
    shape = ", ".join(map(str, worst.shape))
    text = f"no sizes are small enough for [{shape}] to have less than 2**48 elements"
    raise AutofuseError.of("AF1109", text)


def _lows(names: tuple[str, ...], tensors: list[Tensor]) -> dict[str, int]:
    low = dict.fromkeys(names, 0)
    wanted = {e for t in tensors for e in _not_negative(t)}
    for e in sorted(wanted, key=str):
        least = 1
        while _lowest(e, low) < 0:
            if least > _MAX_MIN:
                text = f"the size, stride or offset {e} can be negative, or an element can precede the first"
                raise AutofuseError.of("AF1109", text)
            for n in e.symbols():
                low[n] = max(low[n], least)
            least *= 2
    return low


def _not_negative(t: Tensor) -> Iterator[Expr]:
    """Yield the non-negative expressions: offsets of the first and the lowest element, sizes, and forward strides."""
    first = _offset(t)
    yield first
    yield from t.shape
    for size, stride in zip(t.shape, t.strides or (), strict=False):
        if _backwards(stride):
            first = first + (size - 1) * stride
        else:
            yield stride
    yield first


def _backwards(stride: Expr) -> bool:
    """Return True if a stride is negative for all positive sizes."""
    return bounds(stride, dict.fromkeys(stride.symbols(), (1, MAX_SIZE)))[1] < 0


def _offset(t: Tensor) -> Expr:
    return ZERO if t.offset is None else t.offset


def _lowest(e: Expr, low: Mapping[str, int]) -> int:
    return least_value(e, {n: (low[n], max(low[n], MAX_SIZE)) for n in e.symbols()})


def least_value(e: Expr, ranges: Mapping[str, tuple[int, int]]) -> int:
    """Return a lower bound; if a quotient defeats the plain one, as in ``n - (n + 1) // 2``, that of a multiple."""
    least = max(bounds(e, ranges)[0], _least_of_growing(e, ranges))
    if least >= 0:
        return least
    for atom in e.atoms():
        if isinstance(atom, Func) and atom.name == "FloorDiv" and atom.args[1].is_const:
            return _without_quotient(e, atom, ranges)
    return least


def _least_of_growing(e: Expr, ranges: Mapping[str, tuple[int, int]]) -> int:
    """Return the value at the minima if ``e`` grows with every symbol, as ``n * m - m`` does from 1 on.

    It does if, with every symbol written as its minimum plus a rest, only the constant term is negative.
    """
    grown = e.substitute({n: sym(n) + ranges[n][0] for n in e.symbols()})
    constant = 0
    for monomial, factor in grown.terms:
        if not monomial:
            constant = factor
        elif factor < 0 or any(isinstance(atom, Func) for atom, _ in monomial):
            return -MAX_ELEMENTS
    return constant


def _without_quotient(e: Expr, quotient: Func, ranges: Mapping[str, tuple[int, int]]) -> int:
    """Return a bound of ``e`` times the divisor, with the quotient replaced by its bounds."""
    a, b = quotient.args
    rest, factor = ZERO, 0
    for m, c in e.terms:
        if m == ((quotient, 1),):
            factor = c
        else:
            rest = rest + Expr(((m, c),))
    if factor == 0 or any(quotient == x for x in rest.atoms()):
        return bounds(e, ranges)[0]
    # a - b + 1 <= b * (a // b) <= a
    return bounds(rest * b + factor * (a if factor < 0 else a - b + 1), ranges)[0]


def _check(tensors: list[Tensor], ranges: Mapping[str, tuple[int, int]]) -> None:
    for t in tensors:
        if not _fits(t, ranges):
            shape = ", ".join(map(str, t.shape))
            raise AutofuseError.of(
                "AF1109", f"{t.name} [{shape}] has or spans 2**48 elements or more"
            )


def _fits(t: Tensor, ranges: Mapping[str, tuple[int, int]]) -> bool:
    last = _offset(t)
    if t.strides is not None:
        for size, stride in zip(t.shape, t.strides, strict=True):
            if not _backwards(stride):
                last = last + size * stride
    try:
        most = max(bounds(e, ranges)[1] for e in (product(t.shape), last))
        least = min((least_value(e, ranges) for e in t.shape), default=0)
    except ExprError:
        return False
    return least >= 0 and most < MAX_ELEMENTS
