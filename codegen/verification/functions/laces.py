"""Extents of ``autofuse::Lace``, ``Unlace`` and ``UnlaceByMask``, and of the table of places for ``Lace``.

Element (o, r, c) of a run, ``(o*rows + r)*step + first + c``, is element ``(o*k + c)*pitch + r`` of the long rows.  Of
dense rows ``step`` is ``k``, and ``first`` is 0.  Where there are several runs, ``rows`` may count padding of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from autofuse.codegen.ir.extents import size_of
from autofuse.codegen.ir.kernel_ir import Call, LocalArg, SizeValue
from autofuse.codegen.verification.functions.picks import PATTERNS, has_table_room, loaded
from autofuse.codegen.verification.model import Finding, Kernel
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, const, product
from autofuse.implgraph.ir.graph import Node, TensorView
from autofuse.schedule.placement.lacing import LACES
from autofuse.schedule.placement.picking import beyond, is_run

__all__ = ["is_lace", "is_places", "lace_covers", "lace_fits", "places_are_those_of_their_node"]


def is_lace(s: Call) -> bool:
    """Whether the call is one of the three functions."""
    return s.api.removeprefix("autofuse::") in LACES


def is_places(s: Call) -> bool:
    """Whether the call makes the table for ``Lace``."""
    return s.api == "autofuse::LaceOffsets"


def places_are_those_of_their_node(kernel: Kernel, s: Call, n: Node) -> Iterator[Finding]:
    """The table is made for the rows that its node states."""
    have = [a.value for a in s.args if isinstance(a, SizeValue)]
    want = [size_of(n.attrs[name]) for name in ("k", "pitch", "size")]
    if len(have) != len(want):
        yield Finding(f"{s.api} has {len(have)} sizes", n.name)
        return
    for a, b in zip(have, want, strict=True):
        yield from kernel.same(a, b, f"sizes of {s.api}", n.name)


def lace_covers(
    kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr], extent: Callable[[int], Expr]
) -> Iterator[Finding]:
    """Every element of the tile goes from its place in the operand to its place in the result."""
    source = kernel.nodes[n.inputs[0]]
    run, long = (n.y, source.y) if s.api == "autofuse::Lace" else (source.y, n.y)
    stated = _stated(s, counts)
    short = _short(run, long)
    if stated is None or not short:
        yield Finding(f"{s.api} does not turn short rows of {source.name}", n.name)
        return
    outer, rows, k, pitch, step, first = stated
    order = run.vectorized_axis
    row = long.vectorized_axis[-1]
    around = order[: order.index(row)]
    yield from kernel.same(outer, product(extent(a) for a in around), f"runs of {s.api}", n.name)
    if around:
        yield from kernel.at_least(rows, extent(row), f"rows of {s.api}", n.name)
    else:
        yield from kernel.same(rows, extent(row), f"rows of {s.api}", n.name)
    yield from kernel.same(k, product(extent(a) for a in short), f"short rows of {s.api}", n.name)
    turned = [(a, rows if a == row else extent(a)) for a in order[1:]]
    if len(order) == len(long.vectorized_axis):
        yield from _lies(kernel, n, run, order, turned, ONE)
        if (step, first) != (k, ZERO):
            yield Finding(f"{s.api} takes rows that are {step} apart from {first} on", n.name)
    else:
        yield from _lies(kernel, n, run, order, turned, step)
        yield from _are_loaded(kernel, s, n, stated)
    inner = [(a, extent(a)) for a in long.vectorized_axis[1:-1]]
    yield from _lies(kernel, n, long, long.vectorized_axis[:-1], inner, pitch)
    yield from _has_its_table(kernel, s, n, stated)


def _stated(s: Call, counts: Sequence[Expr]) -> tuple[Expr, Expr, Expr, Expr, Expr, Expr] | None:
    """``outer, rows, k, pitch, step, first`` of a call; None if it has another number of counts."""
    if len(counts) == 4:
        outer, rows, k, pitch = counts
        return outer, rows, k, pitch, k, ZERO
    if len(counts) != 6 or s.api == "autofuse::Lace":
        return None
    outer, rows, k, pitch, step, first = counts
    return outer, rows, k, pitch, step, first


def _are_loaded(
    kernel: Kernel, s: Call, n: Node, stated: tuple[Expr, Expr, Expr, Expr, Expr, Expr]
) -> Iterator[Finding]:
    """What lies apart was loaded with what lies between, as far as the last element of a row."""
    _, _, k, _, step, first = stated
    load = loaded(kernel, n)
    if not is_run(load):
        yield Finding(f"{load.name} does not load a run", n.name)
        return
    strides = dict(zip(load.y.axis, load.y.strides, strict=True))
    row = load.y.vectorized_axis[-1]
    yield from kernel.same(strides[row], step, f"step of {s.api}", n.name)
    yield from kernel.same(
        first, const(int(str(n.attrs.get("first", 0)))), f"start of {s.api}", n.name
    )
    yield from kernel.at_least(
        const(beyond(load) + 1), first + k, f"elements of {load.name}", n.name
    )


def _short(run: TensorView, long: TensorView) -> tuple[int, ...]:
    """The short axes, where the two views differ in nothing else than their place; else none.

    A run of rows that lie apart has none of them.
    """
    rows, order = long.vectorized_axis, run.vectorized_axis
    if rows[-1] not in order:
        return ()
    at = order.index(rows[-1])
    short = order[at + 1 :] or rows[at:-1]
    return short if rows == (*order[:at], *short, order[at]) else ()


def _lies(
    kernel: Kernel,
    n: Node,
    y: TensorView,
    axes: Sequence[int],
    inner: Sequence[tuple[int, Expr]],
    step: Expr,
) -> Iterator[Finding]:
    """The strides of a view along ``axes`` are those of the call; ``inner`` are extents, ``step`` the innermost one."""
    strides = dict(zip(y.vectorized_axis, y.vectorized_strides, strict=True))
    extents = dict(inner)
    for a in reversed(axes):
        where = f"distance along {kernel.axes[a].name} in {n.name}"
        yield from kernel.same(strides[a], step, where, n.name)
        step = step * extents.get(a, ONE)


def _has_its_table(
    kernel: Kernel, s: Call, n: Node, stated: tuple[Expr, Expr, Expr, Expr, Expr, Expr]
) -> Iterator[Finding]:
    """The table that a call reads is made for its rows; GatherMask has a pattern for them."""
    _, _, k, pitch, step, first = stated
    tables = [kernel.nodes[i] for i in n.inputs[1:]]
    size = const(n.y.dtype.itemsize)
    if s.api == "autofuse::UnlaceByMask":
        if step not in [const(p) for p in PATTERNS] or tables:
            yield Finding(f"{s.api} has no pattern for a step of {step}", n.name)
        yield from kernel.at_least(step, first + k, f"elements of a row of {s.api}", n.name)
        return
    laces = s.api == "autofuse::Lace"
    want = "LaceOffsets" if laces else "PickOffsets"
    if [t.op for t in tables] != [want]:
        yield Finding(f"{s.api} reads another table than {want}", n.name)
        return
    attrs = tables[0].attrs
    wanted = {"k": k, "pitch": pitch, "size": size} if laces else {"step": step * size}
    for name, value in wanted.items():
        yield from kernel.same(size_of(attrs[name]), value, f"{name} of {tables[0].name}", n.name)


def lace_fits(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr]) -> Iterator[Finding]:
    """Run, rows and table lie in their buffers, rows and runs at 32-byte addresses."""
    stated = _stated(s, counts)
    if stated is None:
        return  # a finding of its own
    locals_ = [a.local for a in s.args if isinstance(a, LocalArg)]
    rooms = [kernel.nbytes.get(kernel.buffer_of(x), ZERO) for x in locals_[:2]]
    outer, rows, k, pitch, step, first = stated
    size = n.y.dtype.itemsize
    yield from kernel.multiple(pitch * size, kernel.arch.block_bytes, f"rows of {s.api}", n.name)
    yield from kernel.at_least(pitch, rows, f"elements of a row of {s.api}", n.name)
    if outer != ONE:
        yield from kernel.multiple(
            rows * step * size, kernel.arch.block_bytes, f"runs of {s.api}", n.name
        )
    run, long = (outer * rows - 1) * step + first + k, (outer * k - 1) * pitch + rows
    needed = (run, long) if s.api == "autofuse::Lace" else (long, run)
    for local, room, elements in zip(locals_, rooms, needed, strict=False):
        yield from kernel.at_least(room, elements * size, f"bytes of {local} in {s.api}", n.name)
    for local in locals_[2:]:
        yield from has_table_room(kernel, local, s, n)
