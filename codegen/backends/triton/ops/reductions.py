"""Reductions and running sums of blocks in Triton, and joins of partial results.

A block is reduced in the type of its accumulator (:func:`accumulator`), elements out of bounds hold :func:`identity`,
and the last partial result is cast to the type of the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autofuse.codegen.backends.triton.ops.spelling import literal
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.rows.reductions import neutral

__all__ = ["Reduction", "accumulator", "identity", "reduction", "running_sum"]

_FLOAT, _INTEGER = "f", "iu"


@dataclass(frozen=True, slots=True)
class Reduction:
    """One reduction for a kind of element type.

    Attributes:
        block: expression that reduces the block ``{x}`` along ``{axis}``.
        combine: expression that joins two partial results ``{a}`` and ``{b}``, also elementwise for two blocks.
    """

    block: str
    combine: str

    def of(self, x: str, axis: int, *, keep_dims: bool = False) -> str:
        """Return ``x`` reduced along an axis, which keeps size 1 if ``keep_dims``."""
        text = self.block.format(x=x, axis=axis)
        return f"{text[:-1]}, keep_dims=True)" if keep_dims else text

    def joined(self, a: str, b: str) -> str:
        """Return the join of two partial results."""
        return self.combine.format(a=a, b=b)


_SUM = Reduction("tl.sum({x}, {axis})", "{a} + {b}")
_PRODUCT = Reduction("tl.reduce({x}, {axis}, _product)", "{a} * {b}")


def _extremes(name: str, function: str) -> dict[tuple[str, str], Reduction]:
    op = f"Reduce{name.capitalize()}"
    # Triton's own maximum of a block ignores NaN; this is one instruction as well.
    floats = Reduction(f"tl.reduce({{x}}, {{axis}}, {function})", f"{function}({{a}}, {{b}})")
    integers = Reduction(f"tl.{name}({{x}}, {{axis}})", f"tl.{name}imum({{a}}, {{b}})")
    return {(op, _FLOAT): floats, (op, _INTEGER): integers}


_TABLE: Mapping[tuple[str, str], Reduction] = {
    ("ReduceSum", _FLOAT): _SUM,
    ("ReduceSum", _INTEGER): _SUM,
    ("ReduceProd", _FLOAT): _PRODUCT,
    ("ReduceProd", _INTEGER): _PRODUCT,
    **_extremes("max", "_max"),
    **_extremes("min", "_min"),
}


def reduction(op: str, dtype: DType) -> Reduction:
    """Return the Triton form of a reduction (an op of ``REDUCES``) for elements of a type."""
    return _TABLE[op, _FLOAT if dtype.kind == "f" else _INTEGER]


def accumulator(dtype: DType) -> DType:
    """Return the type in which elements are accumulated: 32 bits at least."""
    if dtype.bits >= 32:
        return dtype
    return BY_NAME[{"f": "float32", "i": "int32", "u": "uint32"}[dtype.kind]]


def identity(op: str, dtype: DType) -> str:
    """Return the value of out-of-bounds elements; a Scan takes that of a sum.

    Args:
        op: an op of ``REDUCES``, or Scan.
        dtype: dtype of the node rather than of its accumulator, as an empty reduction returns this value too.
    """
    return literal(neutral("ReduceSum" if op == "Scan" else op, dtype), dtype)


def running_sum(x: str, *, exclusive: bool, reverse: bool) -> str:
    """Return the sums of a block ``[rows, columns]`` up to each element of a row.

    Args:
        x: block, in the type of the accumulator.
        exclusive: exclude the element itself; it is not subtracted again, which would round.
        reverse: sum from the end.
    """
    return f"_running_sum({x}, {exclusive}, {reverse})"
