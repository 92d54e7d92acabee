"""``PickByMask``, ``PickAhead`` and ``PickBack``, and of the tables of offsets for them.

The operand has the layout of the result with every stride times the step, so that element ``i`` of the result is
element ``first + i * step`` of the run; ``PickBack`` takes those of a row from its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autofuse.codegen.functions.definition import (
    DeviceFunction,
    Extent,
    Findings,
    FunctionSite,
    locals_of,
    room_of,
)
from autofuse.codegen.ir.finding import Finding
from autofuse.codegen.ir.kernel_ir import Call, Count, SizeValue
from autofuse.implgraph.expr.expression import ZERO, Expr, const, divide_exact
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.rows.device import PICK_BYTES
from autofuse.schedule.axes.layout import BLOCK
from autofuse.schedule.placement.picking import beyond

if TYPE_CHECKING:
    from autofuse.codegen.verification.model import Kernel

__all__ = ["OFFSETS", "PATTERNS", "PICK", "has_table_room", "loaded", "table_fits"]

PATTERNS = (2, 4)


def _call(s: FunctionSite) -> Call:
    """``count, step``, and ``first`` if it is not 0; of rows from their end ``rows, n, pitch, step``; in elements."""
    n, axes = s.node, s.node.y.vectorized_axis
    elements, step = s.extents.elements(n.y, s.whole), const(int(str(n.attrs["step"])))
    if n.op != "PickBack" or len(axes) < 2:
        first = int(str(n.attrs.get("first", 0)))
        return s.made(map(Count, (elements, step, *([const(first)] if first else []))))
    pitch = n.y.vectorized_strides[-2]
    rows = divide_exact(elements, pitch)
    assert rows is not None, f"rows of {pitch} elements do not make {elements}"
    return s.made(map(Count, (rows, s.extent(axes[-1]), pitch, step)))


def _table(s: FunctionSite) -> Call:
    """A table of the offsets of every so many bytes, of a length that the call knows."""
    return s.made((SizeValue(const(int(str(s.node.attrs["step"]))), BY_NAME["int64"]),))


def _offsets_cover(
    kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr], extent: Extent
) -> Findings:
    """The offsets of a table are those that its node states."""
    have = [a.value for a in s.args if isinstance(a, SizeValue)]
    if have != [const(int(str(n.attrs["step"])))]:
        steps = ", ".join(map(str, have))
        yield Finding(f"{s.api} has offsets every ({steps}) bytes", n.name)


def table_fits(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr]) -> Findings:
    """The table, and what it is made in, have the room of all its entries."""
    for local in locals_of(s):
        yield from has_table_room(kernel, local, s, n)


def has_table_room(kernel: Kernel, local: str, s: Call, n: Node) -> Findings:
    """A table has the room of all its entries."""
    room = room_of(kernel, local)
    yield from kernel.at_least(room, const(PICK_BYTES), f"bytes of {local} in {s.api}", n.name)


def _covers(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr], extent: Extent) -> Findings:
    """Every element of the tile goes from its place in the run to its place in the result."""
    y, source = n.y, kernel.nodes[n.inputs[0]]
    step = int(str(n.attrs["step"]))
    back = s.api == "PickBack"
    if len(counts) != _counts(s, n) or not y.vectorized_axis:
        yield Finding(f"{s.api} has {len(counts)} counts", n.name)
        return
    apart = tuple(t * step for t in y.vectorized_strides)
    if (source.y.vectorized_axis, source.y.vectorized_strides) != (y.vectorized_axis, apart):
        yield Finding(f"{source.name} is not {n.name} with elements {step} apart", n.name)
    forwards = len(counts) < 4
    stated = counts[1] if forwards else counts[-1]
    yield from kernel.same(stated, const(step), f"step of {s.api}", n.name)
    if s.api == "PickByMask" and step not in PATTERNS:
        yield Finding(f"{s.api} has no pattern for a step of {step}", n.name)
    yield from _has_its_table(kernel, s, n, -step if back else step)
    yield from _goes_as_loaded(kernel, n, back=back)
    elements = extent(y.vectorized_axis[0]) * y.vectorized_strides[0]
    if forwards:
        first = int(str(n.attrs.get("first", 0)))
        yield from kernel.same(_first(counts), const(first), f"start of {s.api}", n.name)
        yield from kernel.same(counts[0], elements, f"elements of {s.api}", n.name)
        return
    rows, length, pitch, _ = counts
    yield from kernel.same(
        length, extent(y.vectorized_axis[-1]), f"elements of a row of {s.api}", n.name
    )
    yield from kernel.same(pitch, y.vectorized_strides[-2], f"pitch of {s.api}", n.name)
    yield from kernel.same(rows * pitch, elements, f"elements of {s.api}", n.name)


def _counts(s: Call, n: Node) -> int:
    """How many the call states: of rows that are gone through from their end, also those of the rows."""
    if s.api == "PickBack" and len(n.y.vectorized_axis) > 1:
        return 4
    return 3 if n.attrs.get("first") else 2


def _first(counts: Sequence[Expr]) -> Expr:
    """Elements of a run before the first one that a call of one row takes."""
    return counts[2] if len(counts) == 3 else ZERO


def _has_its_table(kernel: Kernel, s: Call, n: Node, step: int) -> Findings:
    """The table that a call reads is that of its step, for elements of its width."""
    if s.api == "PickByMask":
        return
    tables = [kernel.nodes[i] for i in n.inputs[1:]]
    size = n.y.dtype.itemsize
    want = ("PairOffsets" if size == 8 else "PickOffsets", step * size)
    if [(t.op, t.attrs.get("step")) for t in tables] != [want]:
        yield Finding(f"{s.api} reads another table than {want[0]} of {want[1]} bytes", n.name)


def loaded(kernel: Kernel, n: Node) -> Node:
    """The Load of what a node takes elements of, which may have been widened."""
    load = kernel.nodes[n.inputs[0]]
    while load.op == "Cast":
        load = kernel.nodes[load.inputs[0]]
    return load


def _goes_as_loaded(kernel: Kernel, n: Node, *, back: bool) -> Findings:
    """A run is gone through from its end where it was loaded from there."""
    load = loaded(kernel, n)
    if load.op != "Load" or not load.attrs.get("run"):
        yield Finding(f"{load.name} does not load a run", n.name)
        return
    strides = dict(zip(load.y.axis, load.y.strides, strict=True))
    step = strides[load.y.vectorized_axis[-1]].as_int() or 0
    if (step < 0) != back or abs(step) != n.attrs["step"]:
        yield Finding(f"{n.op} goes through a run with a step of {step}", n.name)
    first = int(str(n.attrs.get("first", 0)))
    if not 0 <= first <= (0 if back else beyond(load)):
        yield Finding(f"{n.op} begins {first} elements behind what {load.name} loads", n.name)


def _fits(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr]) -> Findings:
    """Run, result and tables lie in their buffers, rows at 32-byte addresses."""
    if len(counts) != _counts(s, n):
        return  # a finding of its own
    locals_ = locals_of(s)
    rooms = [room_of(kernel, x) for x in locals_[:2]]
    size, step = n.y.dtype.itemsize, counts[-1] if len(counts) == 4 else counts[1]
    last = counts[0] - 1  # the place of the last element in the result
    if len(counts) == 4:
        rows, length, pitch, _ = counts
        last = (rows - 1) * pitch + length - 1
        yield from kernel.multiple(pitch * size, BLOCK, f"rows of {s.api}", n.name)
        yield from kernel.at_least(pitch, length, f"elements of a row of {s.api}", n.name)
    needed = (last + 1, last * step + 1 + _first(counts))
    for local, room, elements in zip(locals_, rooms, needed, strict=False):
        yield from kernel.at_least(room, elements * size, f"bytes of {local} in {s.api}", n.name)
    for local in locals_[2:]:
        yield from has_table_room(kernel, local, s, n)


PICK = DeviceFunction("pick", _call, _covers, _fits)
#: The headers of what reads the tables have them.
OFFSETS = DeviceFunction("", _table, _offsets_cover, table_fits)
