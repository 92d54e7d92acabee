"""Vector calls: how a node and its registry ``Call`` become arguments, one function per style."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from autofuse.codegen.ir.calls import (
    Arg,
    Call,
    Count,
    EnumArg,
    LocalArg,
    Number,
    Role,
    ScalarVar,
    SizeValue,
)
from autofuse.implgraph.expr.expression import CeilDiv, Expr, align_up
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.definition import Call as CallRow
from autofuse.targets import Architecture

__all__ = ["STYLES", "CallSite", "Scalar"]

#: Scalar operands of calls.
Scalar: TypeAlias = "Number | ScalarVar | SizeValue"


@frozen
class CallSite:
    """Inputs of a call style.

    Attributes:
        tensors: UB tensors of tensor inputs, by position; scalar inputs are in ``scalars``.
        count: number of elements of the result, not rounded.
        arch: architecture, for the lengths of blocks and repeats.
    """

    node: Node
    row: CallRow
    dst: str
    tensors: Mapping[int, tuple[str, DType]]
    scalars: Mapping[int, Scalar]
    count: Expr
    tmp: str | None
    arch: Architecture

    def local(self, i: int) -> LocalArg:
        """Return input ``i`` as a tensor argument, reinterpreted if the row says so."""
        name, dtype = self.tensors[i]
        return LocalArg(name, self.view(dtype))

    def view(self, dtype: DType) -> DType | None:
        """Return the type that a tensor is reinterpreted to, or None."""
        name = self.row.as_type.get(dtype.name)
        return BY_NAME[name] if name else None

    def result(self) -> LocalArg:
        """Return the destination argument."""
        return LocalArg(self.dst, self.view(self.node.y.dtype))

    def rounded(self, dtype: DType) -> Expr:
        """Return the count; rounded up to whole repeats of ``dtype`` if the row says so."""
        if not self.row.whole_repeats:
            return self.count
        return align_up(self.count, self.arch.vector_bytes // dtype.itemsize)

    def in_blocks(self) -> Count:
        """Return the count, rounded up to whole blocks of UB."""
        return Count(align_up(self.count, self.arch.block_bytes // self.node.y.dtype.itemsize))

    def made(self, *args: Arg, extra: tuple[str, ...] = ()) -> Call:
        """Return the statement."""
        reads = tuple(dict.fromkeys([name for name, _ in self.tensors.values()]))
        return Call(self.row.api, args, (self.dst, *extra), reads)


Style: TypeAlias = Callable[[CallSite], Call]


def _count(s: CallSite) -> Count:
    if s.node.y.dtype.kind == "m":
        # A mask is a whole number of blocks, with a bit per element; the calls count 16 bits at a time.
        bits = 8 * s.arch.block_bytes
        return Count(CeilDiv(s.count, bits) * (bits // 16))
    return Count(s.count)


def _unary(s: CallSite) -> Call:
    return s.made(s.result(), s.local(0), _count(s))


def _binary(s: CallSite) -> Call:
    return s.made(s.result(), s.local(0), s.local(1), _count(s))


def _scalar(s: CallSite) -> Call:
    return s.made(s.result(), s.local(0), _viewed(s, s.scalars[1]), _count(s))


def _viewed(s: CallSite, scalar: Scalar) -> Scalar:
    """Return a constant in the type that the tensors are reinterpreted to, with the same bits."""
    view = s.view(s.tensors[0][1])
    if view is None or view.kind != "i" or not isinstance(scalar, Number):
        return scalar
    half = 1 << (view.bits - 1)
    return Number((int(scalar.value) + half) % (2 * half) - half, view)


def _units(s: CallSite) -> Count:
    """Return the number of 16-bit units of the result."""
    return Count(s.count * (s.node.y.dtype.itemsize // 2))


def _bits_1(s: CallSite) -> Call:
    return s.made(s.result(), s.local(0), _units(s))


def _bits_2(s: CallSite) -> Call:
    return s.made(s.result(), s.local(0), s.local(1), _units(s))


def _cast(s: CallSite) -> Call:
    mode = EnumArg(f"RoundMode::CAST_{s.node.attrs['round']}")
    return s.made(s.result(), s.local(0), mode, Count(s.count))


def _mode(s: CallSite) -> EnumArg:
    return EnumArg(f"CMPMODE::{s.node.attrs['mode']}")


def _compare(s: CallSite) -> Call:
    dtype = s.tensors[0][1]
    return s.made(s.result(), s.local(0), s.local(1), _mode(s), Count(s.rounded(dtype)))


def _compare_scalar(s: CallSite) -> Call:
    dtype = s.tensors[0][1]
    return s.made(s.result(), s.local(0), s.scalars[1], _mode(s), Count(s.rounded(dtype)))


def _select(s: CallSite) -> Call:
    dtype = s.tensors[1][1]
    mask = LocalArg(s.tensors[0][0])
    mode = "VSEL_TENSOR_TENSOR_MODE" if 2 in s.tensors else "VSEL_TENSOR_SCALAR_MODE"
    other: Arg = s.local(2) if 2 in s.tensors else s.scalars[2]
    return s.made(
        s.result(), mask, s.local(1), other, EnumArg(f"SELMODE::{mode}"), Count(s.rounded(dtype))
    )


def _duplicate(s: CallSite) -> Call:
    return s.made(s.result(), s.scalars[0], Count(s.count))


def _iota(s: CallSite) -> Call:
    return s.made(s.result(), s.scalars[0], s.scalars[1], Count(s.count))


def _ub_copy(s: CallSite) -> Call:
    """Copy in whole blocks, as DataCopy requires; buffer sizes are multiples of these."""
    return s.made(s.result(), s.local(0), s.in_blocks())


def _reinterpret(s: CallSite) -> Call:
    """Copy between two types of one width; the count is that of a copy."""
    source = LocalArg(s.tensors[0][0], s.node.y.dtype)
    return s.made(s.result(), source, s.in_blocks())


def _advanced_unary(s: CallSite) -> Call:
    assert s.tmp is not None
    return s.made(
        s.result(), s.local(0), LocalArg(s.tmp, None, Role.SCRATCH), Count(s.count), extra=(s.tmp,)
    )


def _advanced_binary(s: CallSite) -> Call:
    assert s.tmp is not None
    return s.made(
        s.result(),
        s.local(0),
        s.local(1),
        LocalArg(s.tmp, None, Role.SCRATCH),
        Count(s.count),
        extra=(s.tmp,),
    )


STYLES: Mapping[str, Style] = {
    "unary": _unary,
    "binary": _binary,
    "scalar": _scalar,
    "cast": _cast,
    "compare": _compare,
    "compare_scalar": _compare_scalar,
    "select": _select,
    "duplicate": _duplicate,
    "iota": _iota,
    "ub_copy": _ub_copy,
    "reinterpret": _reinterpret,
    "bits_1": _bits_1,
    "bits_2": _bits_2,
    "advanced_unary": _advanced_unary,
    "advanced_binary": _advanced_binary,
}
