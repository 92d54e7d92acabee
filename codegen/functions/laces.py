"""``Lace``, ``Unlace``, ``UnlaceByMask``, and the index table of ``Lace``.

Element (o, r, c) of a run, ``(o*rows + r)*step + first + c``, is element ``(o*k + c)*pitch + r`` of the long rows.  For
dense rows ``step`` is ``k``, and ``first`` is 0.  If there are several runs, ``rows`` may include their padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from autofuse.codegen.functions.definition import DeviceFunction, Findings, FunctionSite, Proof
from autofuse.codegen.functions.picks import PATTERNS, TABLE, loaded, table_fits
from autofuse.codegen.ir.calls import Call, Count, SizeValue
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, const, product
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.graph import Node, TensorView
from autofuse.schedule.placement.lacing import lace_counts
from autofuse.schedule.placement.picking import beyond, is_run

__all__ = ["FUNCTIONS"]

#: Values ``outer, rows, k, pitch, step, first`` of a call.
_Stated: TypeAlias = tuple[Expr, Expr, Expr, Expr, Expr, Expr]


def _call(s: FunctionSite) -> Call:
    """Return a call that converts a run of short rows to long rows, or back."""
    return s.made(map(Count, lace_counts(s.node, s.source, s.extent)))


def _table(s: FunctionSite) -> Call:
    """Return the call that builds the table of the positions of short rows' elements in long rows."""
    return s.made(SizeValue(e, BY_NAME["int64"]) for e in _sizes(s.node))


def _sizes(n: Node) -> list[Expr]:
    return [n.size(name) for name in ("k", "pitch", "size")]


def _places_cover(p: Proof) -> Findings:
    """Check that the table is built for the rows that its node states."""
    have = [a.value for a in p.call.args if isinstance(a, SizeValue)]
    want = _sizes(p.n)
    if len(have) != len(want):
        yield p.wrong(f"{p.api} has {len(have)} sizes")
        return
    for a, b in zip(have, want, strict=True):
        yield from p.same(a, b, f"sizes of {p.api}")


def _covers(p: Proof) -> Findings:
    """Check that every element of the tile moves from its position in the operand to its position in the result."""
    source = p.source
    run, long = (p.n.y, source.y) if p.api == "Lace" else (source.y, p.n.y)
    stated = _stated(p)
    short = _short(run, long)
    if stated is None or not short:
        yield p.wrong(f"{p.api} does not turn short rows of {source.name}")
        return
    outer, rows, k, pitch, step, first = stated
    order = run.vectorized_axis
    row = long.vectorized_axis[-1]
    around = order[: order.index(row)]
    yield from p.same(outer, product(p.extent(a) for a in around), f"runs of {p.api}")
    if around:
        yield from p.at_least(rows, p.extent(row), f"rows of {p.api}")
    else:
        yield from p.same(rows, p.extent(row), f"rows of {p.api}")
    yield from p.same(k, product(p.extent(a) for a in short), f"short rows of {p.api}")
    turned = [(a, rows if a == row else p.extent(a)) for a in order[1:]]
    if len(order) == len(long.vectorized_axis):
        yield from _lies(p, run, order, turned, ONE)
        if (step, first) != (k, ZERO):
            yield p.wrong(f"{p.api} takes rows that are {step} apart from {first} on")
    else:
        yield from _lies(p, run, order, turned, step)
        yield from _are_loaded(p, stated)
    inner = [(a, p.extent(a)) for a in long.vectorized_axis[1:-1]]
    yield from _lies(p, long, long.vectorized_axis[:-1], inner, pitch)
    yield from _has_its_table(p, stated)


def _stated(p: Proof) -> _Stated | None:
    """Return the counts that the call states, with step and start; None if their number is wrong."""
    if len(p.counts) == 4:
        outer, rows, k, pitch = p.counts
        return outer, rows, k, pitch, k, ZERO
    if len(p.counts) != 6 or p.api == "Lace":
        return None
    outer, rows, k, pitch, step, first = p.counts
    return outer, rows, k, pitch, step, first


def _are_loaded(p: Proof, stated: _Stated) -> Findings:
    """Check that elements lying apart were loaded with those in between, up to the last element of a row."""
    _, _, k, _, step, first = stated
    load = loaded(p)
    if not is_run(load):
        yield p.wrong(f"{load.name} does not load a run")
        return
    strides = dict(zip(load.y.axis, load.y.strides, strict=True))
    row = load.y.vectorized_axis[-1]
    yield from p.same(strides[row], step, f"step of {p.api}")
    yield from p.same(first, const(p.n.number("first", 0)), f"start of {p.api}")
    yield from p.at_least(const(beyond(load) + 1), first + k, f"elements of {load.name}")


def _short(run: TensorView, long: TensorView) -> tuple[int, ...]:
    """Return the short axes if the two views differ only in the position of these; else none.

    A run of rows that are not adjacent lacks these axes.
    """
    rows, order = long.vectorized_axis, run.vectorized_axis
    if rows[-1] not in order:
        return ()
    at = order.index(rows[-1])
    short = order[at + 1 :] or rows[at:-1]
    return short if rows == (*order[:at], *short, order[at]) else ()


def _lies(
    p: Proof, y: TensorView, axes: Sequence[int], inner: Sequence[tuple[int, Expr]], step: Expr
) -> Findings:
    """Check the strides of a view along ``axes``; ``inner`` are extents, ``step`` the innermost stride."""
    strides = dict(zip(y.vectorized_axis, y.vectorized_strides, strict=True))
    extents = dict(inner)
    for a in reversed(axes):
        where = f"distance along {p.kernel.axes[a].name} in {p.n.name}"
        yield from p.same(strides[a], step, where)
        step = step * extents.get(a, ONE)


def _has_its_table(p: Proof, stated: _Stated) -> Findings:
    """Check that a call's table is built for its rows, or that GatherMask has a pattern for them."""
    _, _, k, pitch, step, first = stated
    tables = [p.kernel.nodes[i] for i in p.n.inputs[1:]]
    size = const(p.n.y.dtype.itemsize)
    if p.api == "UnlaceByMask":
        if step not in [const(x) for x in PATTERNS] or tables:
            yield p.wrong(f"{p.api} has no pattern for a step of {step}")
        yield from p.at_least(step, first + k, f"elements of a row of {p.api}")
        return
    laces = p.api == "Lace"
    want = "LaceOffsets" if laces else "PickOffsets"
    if [t.op for t in tables] != [want]:
        yield p.wrong(f"{p.api} reads another table than {want}")
        return
    wanted = {"k": k, "pitch": pitch, "size": size} if laces else {"step": step * size}
    for name, value in wanted.items():
        yield from p.same(tables[0].size(name), value, f"{name} of {tables[0].name}")


def _fits(p: Proof) -> Findings:
    """Check that run, rows and table fit their buffers, with rows and runs at 32-byte addresses."""
    stated = _stated(p)
    if stated is None:
        return  # Reported separately.
    outer, rows, k, pitch, step, first = stated
    size = p.n.y.dtype.itemsize
    yield from p.aligned(pitch * size, f"rows of {p.api}")
    yield from p.at_least(pitch, rows, f"elements of a row of {p.api}")
    if outer != ONE:
        yield from p.aligned(rows * step * size, f"runs of {p.api}")
    run, long = (outer * rows - 1) * step + first + k, (outer * k - 1) * pitch + rows
    needed = (run, long) if p.api == "Lace" else (long, run)
    yield from p.fit((*(elements * size for elements in needed), TABLE))


_LACE = DeviceFunction("lace", _call, _covers, _fits)
FUNCTIONS = {
    **dict.fromkeys(("Lace", "Unlace", "UnlaceByMask"), _LACE),
    "LaceOffsets": DeviceFunction("lace", _table, _places_cover, table_fits),
}
