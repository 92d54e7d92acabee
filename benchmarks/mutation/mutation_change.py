"""A changed template, and queries of the rules about the texts before and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from autofuse.codegen.ir.calls import Call, Count
from autofuse.codegen.ir.kernel_ir import (
    Alloc,
    CopyIn,
    CopyOut,
    For,
    GetBuf,
    IndexRead,
    KernelFn,
    ScalarRead,
    Stmt,
)
from autofuse.implgraph.expr.expression import ZERO, Expr
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.graph import AxisType, ImplGraph
from autofuse.targets import TargetSpec

__all__ = [
    "Mutation",
    "actual_size",
    "axis_name",
    "blocks_of",
    "calls_of",
    "change_of",
    "count_change",
    "dtypes_of",
    "has_one_tile",
    "one_step",
    "one_turn",
    "reads_of",
    "statements",
    "tile_lengths",
    "writes_of",
]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A changed template.

    Attributes:
        others: maximum number of cores used by the other groups of a launch, for all tiles; None: unknown.
    """

    kind: str
    fn: KernelFn
    mutant: KernelFn
    impl: ImplGraph
    target: TargetSpec
    others: int | None


def has_one_tile(impl: ImplGraph) -> bool:
    """Return True if the tiled axis has a fixed size that the host does not split."""
    longest = impl.tiling.opened.longest.as_int()
    return longest is not None and longest <= impl.tiling.opened.granule


def axis_name(impl: ImplGraph, kind: AxisType) -> str:
    """Return the name of the first axis of a type."""
    return next(a.name for a in impl.axes if a.type is kind)


def actual_size(impl: ImplGraph) -> str:
    """Return the variable with the actual length of a tile; the last tile may be shorter."""
    return f"{impl.tile(AxisType.TILE_IN).name}_actual_size"


def tile_lengths(impl: ImplGraph) -> set[int]:
    """Return the possible tile lengths of an axis of fixed size: those that fit UB, if its bytes depend on no more."""
    spec = impl.tiling
    longest = spec.opened.longest.as_int() or 0
    lengths = {longest, *range(spec.opened.granule, longest + 1, spec.opened.granule)} - {0}
    if not set(spec.ub.symbols()) <= {spec.opened.symbol}:
        return lengths
    return {t for t in lengths if spec.ub.evaluate({spec.opened.symbol: t}) <= spec.ub_limit}


def one_turn(impl: ImplGraph) -> bool:
    """Return True if there is one tile for all cores: the whole axis, or one split only for the reduce loop."""
    spec = impl.tiling
    return (has_one_tile(impl) or spec.reduce_tiles) and spec.outer.as_int() == 1


def one_step(m: Mutation) -> bool:
    """Return True for an accumulator's initial value in a combining loop that runs once per tile."""
    spec = m.impl.tiling
    return spec.reduce_outer.as_int() == 1 and (has_one_tile(m.impl) or not spec.reduce_tiles)


def dtypes_of(m: Mutation) -> dict[str, DType]:
    """Return the element types of the tensors in UB."""
    return {s.local: s.dtype for s in statements(m.fn.body) if isinstance(s, Alloc | GetBuf)}


def calls_of(body: tuple[Stmt, ...]) -> list[Call]:
    """Return the calls of a block and of the loops in it."""
    return [s for s in statements(body) if isinstance(s, Call)]


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Yield the statements of a block and of the loops in it."""
    for block in blocks_of(body):
        yield from block


def blocks_of(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """Yield a block and the blocks of the loops in it."""
    yield body
    for s in body:
        if isinstance(s, For):
            yield from blocks_of(s.body)


def change_of(m: Mutation) -> tuple[Stmt | None, Stmt | None]:
    """Return the single replaced statement and its replacement; None if the change is not a replacement."""
    pairs = list(_differences(m.fn.body, m.mutant.body))
    return pairs[0] if len(pairs) == 1 else (None, None)


def _differences(
    a: tuple[Stmt, ...], b: tuple[Stmt, ...]
) -> Iterator[tuple[Stmt | None, Stmt | None]]:
    if len(a) != len(b):
        yield None, None
        return
    for x, y in zip(a, b, strict=True):
        if isinstance(x, For) and isinstance(y, For) and (x.var, x.extent) == (y.var, y.extent):
            yield from _differences(x.body, y.body)
        elif x != y:
            yield x, y


def count_change(m: Mutation) -> tuple[Call | None, Expr, Expr]:
    """Return the call with one changed count, the old count and the new one."""
    old, new = change_of(m)
    if isinstance(old, Call) and isinstance(new, Call) and replace(new, args=old.args) == old:
        pairs = zip(old.args, new.args, strict=True)
        changed = [(a, b) for a, b in pairs if a != b]
        if len(changed) == 1:
            a, b = changed[0]
            if isinstance(a, Count) and isinstance(b, Count):
                return old, a.value, b.value
    return None, ZERO, ZERO


def writes_of(s: Stmt) -> tuple[str, ...]:
    """Return the UB tensors that a call or a load writes."""
    return s.writes if isinstance(s, Call) else (s.local,) if isinstance(s, CopyIn) else ()


def reads_of(s: Stmt) -> tuple[str, ...]:
    """Return the UB tensors that a statement reads."""
    if isinstance(s, Call):
        return s.reads
    return (s.local,) if isinstance(s, CopyOut | ScalarRead | IndexRead) else ()
