"""Reductions of integer types that the chip cannot reduce, in terms of types that it can.

Sums and products wrap and have the same bits for signed and unsigned types, so 8 bits are reduced as int16, 16 and 32
bits as the signed type of that width.  For extremes, unsigned numbers are mapped to signed ones in the same order.
64-bit numbers are split:

* The largest number has the largest upper word, and among those the largest lower word.
* A sum adds the upper words and every digit of the lower words; digits are short enough that the sum of one stays below
  2^31 for the largest number of elements.
* A product multiplies slices, each with one of the numbers.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.wording import Wording, counted
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ONE, const, product
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.fusion import Constant, FusionNode, Operand, Tensor

__all__ = ["INDIRECT", "integer_reduction"]

INT16, INT32, UINT32 = (BY_NAME[n] for n in ("int16", "int32", "uint32"))
#: Types for which the chip lacks at least one reduction.
INDIRECT = frozenset({"int8", "uint8", "uint16", "uint32", "int64", "uint64"})
_NARROW = {"int8": INT16, "uint8": INT16, "uint16": INT16, "uint32": INT32}
_INT_MIN = -(1 << 31)
#: Minimum bits of a digit: with 8 digits of 4 bits, 2^27 elements can be added.
_LEAST_DIGIT = 4
#: Sums of more elements, which need more digits, first reduce the inner dimensions.
_AT_ONCE = 1 << 23
#: Maximum numbers in a product: each takes a separate load.
_MOST_FACTORS = 64


class Builder(Protocol):
    """The rewriter interface for building reductions; operands are tensor names."""

    tensors: dict[str, Tensor]
    #: The op being decomposed.
    node: FusionNode
    #: Range of every symbol.
    ranges: dict[str, tuple[int, int]]

    def emit(self, op: str, inputs: Sequence[Operand], **attrs: Any) -> str:
        """Add a node with a new result, and return its name."""

    def cast(self, x: str, to: DType) -> str:
        """Return ``x`` in another dtype."""


#: Reduces a tensor, of a type that the chip reduces, over axes, which stay with size 1.
Native = Callable[[str, str, Sequence[int]], str]


def integer_reduction(r: Builder, op: str, x: str, axes: Sequence[int], native: Native) -> str:
    """Build a reduction of a type in :data:`INDIRECT`; the reduced axes stay, with size 1.

    Args:
        r: builds the nodes.
        op: one of the four reductions.
        x: name of the tensor.
        axes: sorted numbers of the reduced axes.
        native: builds the reductions that the chip has.

    Raises:
        AutofuseError: AF3001, a 64-bit sum of more elements than its digits allow, or a 64-bit product of too many or
            an unknown number of elements.
    """
    dtype = r.tensors[x].dtype
    extreme = op in ("ReduceMax", "ReduceMin")
    if dtype.bits == 64:
        if extreme:
            return _extreme_of_words(r, op, x, axes, native)
        return (_sum_of_words if op == "ReduceSum" else _product_of_slices)(r, x, axes, native)
    if not extreme:
        return r.cast(native(op, r.cast(x, _NARROW[dtype.name]), axes), dtype)
    if dtype.bits < 32:
        wide = BY_NAME["float16" if dtype.bits == 8 else "int32"]
        return r.cast(native(op, r.cast(x, wide), axes), dtype)
    best = native(op, _ordered(r, r.cast(x, INT32)), axes)
    return r.cast(_ordered(r, best), dtype)


def _ordered(r: Builder, x: str) -> str:
    """Flip the top bit of int32, which maps the order of uint32 to that of int32, and back."""
    return r.emit("Add", [x, Constant(_INT_MIN, INT32)])


def _words(r: Builder, x: str) -> tuple[str, str]:
    """Return (low, high), the words of 64-bit numbers as int32."""
    dtype = r.tensors[x].dtype
    return r.cast(x, INT32), r.cast(r.emit("RShift", [x, Constant(32, dtype)]), INT32)


def _wide(r: Builder, word: str, dtype: DType, shift: int) -> str:
    """Return an unsigned word, widened and shifted left by ``shift``."""
    x = r.cast(r.cast(word, UINT32), dtype)
    return r.emit("LShift", [x, Constant(shift, dtype)]) if shift else x


def _extreme_of_words(r: Builder, op: str, x: str, axes: Sequence[int], native: Native) -> str:
    dtype = r.tensors[x].dtype
    low, high = _words(r, x)
    low = _ordered(r, low)
    high = _ordered(r, high) if dtype.kind == "u" else high
    best = native(op, high, axes)
    worst = Constant(_INT_MIN if op == "ReduceMax" else -1 - _INT_MIN, INT32)
    found = r.emit("Select", [r.emit("Equal", [high, best]), low, worst])
    below = _ordered(r, native(op, found, axes))
    above = _ordered(r, best) if dtype.kind == "u" else best
    return r.emit("BitwiseOr", [_wide(r, above, dtype, 32), _wide(r, below, dtype, 0)])


def _sum_of_words(r: Builder, x: str, axes: Sequence[int], native: Native) -> str:
    t = r.tensors[x]

    def count_of(some: Sequence[int]) -> int:
        return bounds(product(t.shape[a] for a in some), r.ranges)[1]

    count = count_of(axes)
    few = next((k for k in range(1, len(axes)) if count_of(axes[k:]) <= _AT_ONCE), 0)
    if count > _AT_ONCE and few:
        return _sum_of_words(r, _sum_of_words(r, x, axes[few:], native), axes[:few], native)
    # The sum of a digit uses only half the range of a word, so that a carry can be added.
    width = min(16, 31 - max(count - 1, 0).bit_length())
    if width < _LEAST_DIGIT:
        raise _refused(
            r,
            f"a sum of {t.dtype} over up to {counted(count, 'element')}: {1 << (31 - _LEAST_DIGIT)} is the maximum",
            "give the symbols of the reduced axes a smaller max",
        )
    digits = -(-32 // width)
    width = -(-32 // digits)
    word, high = _words(r, x)
    unsigned = r.cast(word, UINT32)

    def bits(op: str, y: str, n: int) -> str:
        return r.emit(op, [y, Constant(n, UINT32)]) if n else y

    low = carry = ""
    for k in range(digits):
        last, at = k + 1 == digits, k * width
        digit = bits("RShift", unsigned, at)
        if not last:
            digit = bits("BitwiseAnd", digit, (1 << width) - 1)
        part = r.cast(native("ReduceSum", r.cast(digit, INT32), axes), UINT32)
        part = r.emit("Add", [part, carry]) if carry else part
        carry = bits("RShift", part, 32 - at if last else width)
        part = bits("LShift", part if last else bits("BitwiseAnd", part, (1 << width) - 1), at)
        low = r.emit("BitwiseOr", [low, part]) if low else part
    above = r.emit("Add", [native("ReduceSum", high, axes), r.cast(carry, INT32)])
    return r.emit("BitwiseOr", [_wide(r, above, t.dtype, 32), _wide(r, low, t.dtype, 0)])


def _product_of_slices(r: Builder, x: str, axes: Sequence[int], native: Native) -> str:
    t = r.tensors[x]
    count = product(t.shape[a] for a in axes)
    if not count.is_const or count.value > _MOST_FACTORS:
        raise _refused(
            r,
            Wording(
                "a product of {} of {}: each is loaded on its own, so their number must be known, "
                "and at most {}",
                counted(count, "number"),
                t.dtype,
                _MOST_FACTORS,
            ),
        )
    if count == 0:
        shape = tuple(ONE if d in axes else s for d, s in enumerate(t.shape))
        return r.emit("Broadcast", [Constant(1, t.dtype)], shape=shape)
    places = itertools.product(*(range(t.shape[a].value) for a in axes))
    slices = (_slice(r, x, dict(zip(axes, at, strict=True))) for at in places)
    return functools.reduce(lambda a, b: r.emit("Mul", [a, b]), slices)


def _slice(r: Builder, x: str, at: Mapping[int, int]) -> str:
    """Slice out one index along some dimensions."""
    shape = r.tensors[x].shape
    starts = tuple(const(at.get(d, 0)) for d in range(len(shape)))
    sizes = tuple(ONE if d in at else s for d, s in enumerate(shape))
    return r.emit("Slice", [x], starts=starts, shape=sizes, steps=(1,) * len(shape))


def _refused(r: Builder, what: str, hint: str = "") -> AutofuseError:
    n = r.node
    where = Where(pointer=n.origin, node=n.label)
    return AutofuseError.of(
        "AF3001", Wording("there is no way for {}", what), where=where, hint=hint
    )
