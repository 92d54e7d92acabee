"""``PickByMask``, ``PickAhead``, ``PickBack``, and their tables of offsets.

The operand has the layout of the result with every stride times the step, so that element ``i`` of the result is
element ``first + i * step`` of the run; ``PickBack`` reads a row backwards.
"""

from __future__ import annotations

from autofuse.codegen.functions.definition import DeviceFunction, Findings, FunctionSite, Proof
from autofuse.codegen.ir.calls import Call, Count, SizeValue
from autofuse.implgraph.expr.expression import ZERO, Expr, const, divide_exact
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.rows.device import PICK_BYTES
from autofuse.schedule.placement.picking import beyond

__all__ = ["FUNCTIONS", "PATTERNS", "TABLE", "loaded", "table_fits"]

PATTERNS = (2, 4)
#: Bytes of a table, and of the scratch space that builds it.
TABLE = const(PICK_BYTES)


def _call(s: FunctionSite) -> Call:
    """Return a call with ``count, step``, and ``first`` if nonzero; for reversed rows with ``rows, n, pitch, step``."""
    n, axes = s.node, s.node.y.vectorized_axis
    elements, step = s.extents.elements(n.y, s.whole), const(n.number("step"))
    if n.op != "PickBack" or len(axes) < 2:
        first = n.number("first", 0)
        return s.made(map(Count, (elements, step, *([const(first)] if first else []))))
    pitch = n.y.vectorized_strides[-2]
    rows = divide_exact(elements, pitch)
    assert rows is not None, f"rows of {pitch} elements do not make {elements}"
    return s.made(map(Count, (rows, s.extent(axes[-1]), pitch, step)))


def _table(s: FunctionSite) -> Call:
    """Return the call that builds a table of the multiples of a byte step."""
    return s.made((SizeValue(const(s.node.number("step")), BY_NAME["int64"]),))


def _offsets_cover(p: Proof) -> Findings:
    """Check that a table has the offsets that its node states."""
    have = [a.value for a in p.call.args if isinstance(a, SizeValue)]
    if have != [const(p.n.number("step"))]:
        steps = ", ".join(map(str, have))
        yield p.wrong(f"{p.api} has offsets every ({steps}) bytes")


def table_fits(p: Proof) -> Findings:
    """Check that the table, and its scratch space, have room for all entries."""
    return p.fit((TABLE, TABLE))


def _covers(p: Proof) -> Findings:
    """Check that every element of the tile moves from its position in the run to its position in the result."""
    y, source = p.n.y, p.source
    step = p.n.number("step")
    back = p.api == "PickBack"
    if len(p.counts) != _counts(p) or not y.vectorized_axis:
        yield p.wrong(f"{p.api} has {len(p.counts)} counts")
        return
    apart = tuple(t * step for t in y.vectorized_strides)
    if (source.y.vectorized_axis, source.y.vectorized_strides) != (y.vectorized_axis, apart):
        yield p.wrong(f"{source.name} is not {p.n.name} with elements {step} apart")
    forwards = len(p.counts) < 4
    stated = p.counts[1] if forwards else p.counts[-1]
    yield from p.same(stated, const(step), f"step of {p.api}")
    if p.api == "PickByMask" and step not in PATTERNS:
        yield p.wrong(f"{p.api} has no pattern for a step of {step}")
    yield from _has_its_table(p, -step if back else step)
    yield from _goes_as_loaded(p, back=back)
    elements = p.extent(y.vectorized_axis[0]) * y.vectorized_strides[0]
    if forwards:
        first = p.n.number("first", 0)
        yield from p.same(_first(p), const(first), f"start of {p.api}")
        yield from p.same(p.counts[0], elements, f"elements of {p.api}")
        return
    rows, length, pitch, _ = p.counts
    yield from p.same(length, p.extent(y.vectorized_axis[-1]), f"elements of a row of {p.api}")
    yield from p.same(pitch, y.vectorized_strides[-2], f"pitch of {p.api}")
    yield from p.same(rows * pitch, elements, f"elements of {p.api}")


def _counts(p: Proof) -> int:
    """Return the number of counts in the call; PickBack of several rows also states those of the rows."""
    if p.api == "PickBack" and len(p.n.y.vectorized_axis) > 1:
        return 4
    return 3 if p.n.attrs.get("first") else 2


def _first(p: Proof) -> Expr:
    """Return the index in a run of the first element that a call of one row takes."""
    return p.counts[2] if len(p.counts) == 3 else ZERO


def _has_its_table(p: Proof, step: int) -> Findings:
    """Check that a call's table has its step, for elements of its width."""
    if p.api == "PickByMask":
        return
    tables = [p.kernel.nodes[i] for i in p.n.inputs[1:]]
    size = p.n.y.dtype.itemsize
    want = ("PairOffsets" if size == 8 else "PickOffsets", step * size)
    if [(t.op, t.attrs.get("step")) for t in tables] != [want]:
        yield p.wrong(f"{p.api} reads another table than {want[0]} of {want[1]} bytes")


def loaded(p: Proof) -> Node:
    """Return the Load behind a node's operand, skipping casts."""
    load = p.source
    while load.op == "Cast":
        load = p.kernel.nodes[load.inputs[0]]
    return load


def _goes_as_loaded(p: Proof, *, back: bool) -> Findings:
    """Check that a run is traversed backwards exactly if it was loaded backwards."""
    load = loaded(p)
    if load.op != "Load" or not load.attrs.get("run"):
        yield p.wrong(f"{load.name} does not load a run")
        return
    strides = dict(zip(load.y.axis, load.y.strides, strict=True))
    step = strides[load.y.vectorized_axis[-1]].as_int() or 0
    if (step < 0) != back or abs(step) != p.n.attrs["step"]:
        yield p.wrong(f"{p.n.op} goes through a run with a step of {step}")
    first = p.n.number("first", 0)
    if not 0 <= first <= (0 if back else beyond(load)):
        yield p.wrong(f"{p.n.op} begins {first} elements behind what {load.name} loads")


def _fits(p: Proof) -> Findings:
    """Check that run, result and tables fit their buffers, with rows at 32-byte addresses."""
    if len(p.counts) != _counts(p):
        return  # Reported separately.
    size, step = p.n.y.dtype.itemsize, p.counts[-1] if len(p.counts) == 4 else p.counts[1]
    last = p.counts[0] - 1  # Position of the last element in the result.
    if len(p.counts) == 4:
        rows, length, pitch, _ = p.counts
        last = (rows - 1) * pitch + length - 1
        yield from p.aligned(pitch * size, f"rows of {p.api}")
        yield from p.at_least(pitch, length, f"elements of a row of {p.api}")
    run = last * step + 1 + _first(p)
    yield from p.fit(((last + 1) * size, run * size, TABLE, TABLE))


_PICK = DeviceFunction("pick", _call, _covers, _fits)
#: The header of the function that reads the table also builds it.
_OFFSETS = DeviceFunction("", _table, _offsets_cover, table_fits)
FUNCTIONS = {
    **dict.fromkeys(("PickByMask", "PickAhead", "PickBack"), _PICK),
    **dict.fromkeys(("PickOffsets", "PairOffsets"), _OFFSETS),
}
