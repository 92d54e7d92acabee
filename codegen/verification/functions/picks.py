"""Extents of ``autofuse::PickByMask``, ``PickAhead`` and ``PickBack``, and of the tables of offsets for them.

The operand has the layout of the result with every stride times the step, so that element ``i`` of the result is
element ``first + i * step`` of the run; ``PickBack`` takes those of a row from its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from autofuse.codegen.ir.kernel_ir import Call, LocalArg, SizeValue
from autofuse.codegen.verification.model import Finding, Kernel
from autofuse.implgraph.expr.expression import ZERO, Expr, const
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.scratch import PICK_BYTES
from autofuse.schedule.placement.picking import OFFSETS, PICKS, beyond

__all__ = [
    "PATTERNS",
    "has_table_room",
    "is_pick",
    "is_table",
    "loaded",
    "pick_covers",
    "pick_fits",
    "table_fits",
    "table_is_that_of_its_node",
]

PATTERNS = (2, 4)


def is_pick(s: Call) -> bool:
    """Whether the call is one of the three functions."""
    return s.api.removeprefix("autofuse::") in PICKS


def is_table(s: Call) -> bool:
    """Whether the call makes a table of offsets."""
    return s.api.removeprefix("autofuse::") in OFFSETS


def table_is_that_of_its_node(s: Call, n: Node) -> Iterator[Finding]:
    """The offsets of a table are those that its node states."""
    have = [a.value for a in s.args if isinstance(a, SizeValue)]
    if have != [const(int(str(n.attrs["step"])))]:
        steps = ", ".join(map(str, have))
        yield Finding(f"{s.api} has offsets every ({steps}) bytes", n.name)


def table_fits(kernel: Kernel, s: Call, n: Node) -> Iterator[Finding]:
    """The table, and what it is made in, have the room of all its entries."""
    for a in s.args:
        if isinstance(a, LocalArg):
            yield from has_table_room(kernel, a.local, s, n)


def has_table_room(kernel: Kernel, local: str, s: Call, n: Node) -> Iterator[Finding]:
    """A table has the room of all its entries."""
    room = kernel.nbytes.get(kernel.buffer_of(local), ZERO)
    yield from kernel.at_least(room, const(PICK_BYTES), f"bytes of {local} in {s.api}", n.name)


def pick_covers(
    kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr], extent: Callable[[int], Expr]
) -> Iterator[Finding]:
    """Every element of the tile goes from its place in the run to its place in the result."""
    y, source = n.y, kernel.nodes[n.inputs[0]]
    step = int(str(n.attrs["step"]))
    back = s.api == "autofuse::PickBack"
    if len(counts) != _counts(s, n) or not y.vectorized_axis:
        yield Finding(f"{s.api} has {len(counts)} counts", n.name)
        return
    apart = tuple(t * step for t in y.vectorized_strides)
    if (source.y.vectorized_axis, source.y.vectorized_strides) != (y.vectorized_axis, apart):
        yield Finding(f"{source.name} is not {n.name} with elements {step} apart", n.name)
    forwards = len(counts) < 4
    stated = counts[1] if forwards else counts[-1]
    yield from kernel.same(stated, const(step), f"step of {s.api}", n.name)
    if s.api == "autofuse::PickByMask" and step not in PATTERNS:
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
    if s.api == "autofuse::PickBack" and len(n.y.vectorized_axis) > 1:
        return 4
    return 3 if n.attrs.get("first") else 2


def _first(counts: Sequence[Expr]) -> Expr:
    """Elements of a run before the first one that a call of one row takes."""
    return counts[2] if len(counts) == 3 else ZERO


def _has_its_table(kernel: Kernel, s: Call, n: Node, step: int) -> Iterator[Finding]:
    """The table that a call reads is that of its step, for elements of its width."""
    if s.api == "autofuse::PickByMask":
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


def _goes_as_loaded(kernel: Kernel, n: Node, *, back: bool) -> Iterator[Finding]:
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


def pick_fits(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr]) -> Iterator[Finding]:
    """Run, result and tables lie in their buffers, rows at 32-byte addresses."""
    if len(counts) != _counts(s, n):
        return  # a finding of its own
    locals_ = [a.local for a in s.args if isinstance(a, LocalArg)]
    rooms = [kernel.nbytes.get(kernel.buffer_of(x), ZERO) for x in locals_[:2]]
    size, step = n.y.dtype.itemsize, counts[-1] if len(counts) == 4 else counts[1]
    last = counts[0] - 1  # the place of the last element in the result
    if len(counts) == 4:
        rows, length, pitch, _ = counts
        last = (rows - 1) * pitch + length - 1
        yield from kernel.multiple(
            pitch * size, kernel.arch.block_bytes, f"rows of {s.api}", n.name
        )
        yield from kernel.at_least(pitch, length, f"elements of a row of {s.api}", n.name)
    needed = (last + 1, last * step + 1 + _first(counts))
    for local, room, elements in zip(locals_, rooms, needed, strict=False):
        yield from kernel.at_least(room, elements * size, f"bytes of {local} in {s.api}", n.name)
    for local in locals_[2:]:
        yield from has_table_room(kernel, local, s, n)
