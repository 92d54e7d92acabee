"""A node of every op that users write, on a tensor that is there: for long chains, and for graphs of all ops mixed.

``STEPS`` has the ops that need attributes, several types or other shapes; the others take tensors of one type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from storm_maker import DTYPES, FLOATS, Maker

from autofuse import api
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ops.definition import OpDef, OpError
from autofuse.implgraph.ops.registry import all_ops

__all__ = ["OPS", "add_op", "of_one_op"]

#: Adds a node of an op to a tensor, perhaps with another one of its type and shape; None where it does not take it.
Step = Callable[[Maker, OpDef, str, str], "str | None"]
#: Numbers of 64 bits that are multiplied at most.
_MOST_FACTORS = 64
_INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def _plain(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    """An op of tensors of one type and shape, whose attributes may be left out."""
    dtype, shape = m.tensors[x]
    xs = [x, other, x][: max(1, row.arity[0])]
    try:
        to = row.dtype_rule([BY_NAME[dtype]] * len(xs), {a.name: a.default for a in row.attrs})
    except OpError:
        return None
    return m.node(row.name, xs, to.name, shape)


def _attrs(**attrs: Any) -> Step:
    def step(m: Maker, row: OpDef, x: str, other: str) -> str | None:
        dtype, shape = m.tensors[x]
        return m.node(row.name, [x], dtype, shape, **attrs) if dtype in FLOATS else None

    return step


def _degree(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    """A polynomial whose degree, the second operand, is a number."""
    dtype, shape = m.tensors[x]
    return m.node(row.name, [x, m.rng.randint(0, 8)], dtype, shape) if dtype in FLOATS else None


def _reduce(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    """A reduction along one axis, which stays with size 1; of 64-bit numbers no product of unknown or of many ones."""
    dtype, shape = m.tensors[x]
    axis = _axis(m, shape)
    if axis is None or m.value(shape[axis]) == 0:
        return None
    size = shape[axis]
    many = isinstance(size, str) or size > _MOST_FACTORS
    if many and row.name == "ReduceProd" and dtype in ("int64", "uint64"):
        return None
    try:
        to = row.dtype_rule([BY_NAME[dtype]], {"axes": (axis,)}).name
    except OpError:
        return None
    out = [1 if i == axis else d for i, d in enumerate(shape)]
    return m.node(row.name, [x], to, out, axes=[axis], keepdims=True)


def _arg(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    dtype, shape = m.tensors[x]
    axis = _axis(m, shape)
    if axis is None or dtype == "bool" or m.value(shape[axis]) == 0:
        return None
    out = [1 if i == axis else d for i, d in enumerate(shape)]
    return m.node(row.name, [x], "int32", out, axis=axis, keepdims=True, dtype="int32")


def _along(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    """An op along one axis that keeps the shape."""
    dtype, shape = m.tensors[x]
    axis = _axis(m, shape)
    wanted = FLOATS if row.name != "CumSum" else (*FLOATS, *_INTS)
    if axis is None or dtype not in wanted:
        return None
    return m.node(row.name, [x], dtype, shape, axis=axis)


def _axis(m: Maker, shape: Sequence[Any]) -> int | None:
    return m.rng.randrange(len(shape)) if shape else None


def _cast(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    dtype, shape = m.tensors[x]
    to = m.rng.choice([d for d in (*FLOATS, *_INTS, "bool") if d != dtype])
    return m.node(row.name, [x], to, shape, dtype=to)


def _bit_cast(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    dtype, shape = m.tensors[x]
    same = {"float32": "int32", "int32": "float32", "float16": "int16", "int16": "float16"}
    if dtype not in same:
        return None
    return m.node(row.name, [x], same[dtype], shape, dtype=same[dtype], source=dtype)


def _select(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    """A choice between two tensors by a third one, or of a number."""
    dtype, shape = m.tensors[x]
    mask = m.node("NotEqual", [x, other], "bool", shape)
    if row.name == "Select":
        return m.node(row.name, [mask, x, other], dtype, shape)
    return m.node(row.name, [x, mask, False if dtype == "bool" else 0], dtype, shape)


def _shift(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    dtype, shape = m.tensors[x]
    return m.node(row.name, [x, 3], dtype, shape) if dtype in _INTS else None


def _whole(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    dtype, shape = m.tensors[x]
    to = "int32"
    return m.node(row.name, [x], to, shape, dtype=to) if dtype in FLOATS else None


def _broadcast(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    """Along a new outer axis, or along one of size 1."""
    dtype, shape = m.tensors[x]
    ones = [i for i, d in enumerate(shape) if d == 1]
    if not ones and (len(shape) >= 5 or not m.count(shape) or m.count(shape) > 4000):
        return None
    if ones:
        at = m.rng.choice(ones)
        out = [2 if i == at else d for i, d in enumerate(shape)]
    else:
        out = [2, *shape]
    return m.node(row.name, [x], dtype, out, shape=out)


def _reshape(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    """Two dimensions of known sizes become one, or one becomes two."""
    dtype, shape = m.tensors[x]
    pairs = [
        i
        for i in range(len(shape) - 1)
        if isinstance(shape[i], int) and isinstance(shape[i + 1], int)
    ]
    even = [i for i, d in enumerate(shape) if isinstance(d, int) and d > 2 and d % 2 == 0]
    if even and (not pairs or m.chance(50)) and len(shape) < 6:
        at = m.rng.choice(even)
        out = [*shape[:at], 2, shape[at] // 2, *shape[at + 1 :]]
    elif pairs:
        at = m.rng.choice(pairs)
        out = [*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]]
    else:
        out = list(shape)
    return m.node(row.name, [x], dtype, out, shape=out)


def _transpose(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    dtype, shape = m.tensors[x]
    perm = list(range(len(shape)))
    m.rng.shuffle(perm)
    return m.node(row.name, [x], dtype, [shape[p] for p in perm], perm=perm)


def _slice(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    """One element less at an end of an axis, or all of them from the last to the first."""
    dtype, shape = m.tensors[x]
    long = [i for i, d in enumerate(shape) if isinstance(d, int) and d > 1]
    if not long:
        return None
    at = m.rng.choice(long)
    starts, steps, out = [0] * len(shape), [1] * len(shape), list(shape)
    if m.chance(30):
        starts[at], steps[at] = shape[at] - 1, -1
    else:
        starts[at], out[at] = m.rng.randint(0, 1), shape[at] - 1
    return m.node(row.name, [x], dtype, out, starts=starts, shape=out, steps=steps)


def _concat(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    """A new tensor of width 1 beside a tensor."""
    dtype, shape = m.tensors[x]
    axis = _axis(m, shape)
    if axis is None:
        return None
    d = shape[axis]
    more = m.input(dtype, [1 if i == axis else s for i, s in enumerate(shape)])
    longer = d + 1 if isinstance(d, int) else f"{d}+1"
    out = [longer if i == axis else s for i, s in enumerate(shape)]
    return m.node(row.name, [x, more], dtype, out, axis=axis)


def _pad(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    """One element more at an end of an axis."""
    dtype, shape = m.tensors[x]
    axis = _axis(m, shape)
    if axis is None:
        return None
    d = shape[axis]
    ends = [[0] * len(shape), [0] * len(shape)]
    ends[m.rng.randint(0, 1)][axis] = 1
    longer = d + 1 if isinstance(d, int) else f"{d}+1"
    out = [longer if i == axis else s for i, s in enumerate(shape)]
    return m.node(row.name, [x], dtype, out, low=ends[0], high=ends[1])


def _iota(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    """Numbers along an axis, added to a tensor."""
    dtype, shape = m.tensors[x]
    axis = _axis(m, shape)
    if axis is None or dtype not in ("float32", "int32"):
        return None
    line = m.node(row.name, [], dtype, shape, shape=list(shape), axis=axis, dtype=dtype)
    return m.node("Add", [x, line], dtype, shape)


def _gather(m: Maker, row: OpDef, x: str, other: str) -> str | None:
    """As many elements along an axis, by an index of its own."""
    dtype, shape = m.tensors[x]
    axis = _axis(m, shape)
    if axis is None or m.value(shape[axis]) == 0:
        return None
    index = m.input("int32", shape if row.name == "GatherElements" else [shape[axis]])
    return m.node(row.name, [x, index], dtype, shape, axis=axis)


STEPS: Mapping[str, Step] = {
    **dict.fromkeys(
        (
            "ReduceSum",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceMean",
            "ReduceAny",
            "ReduceAll",
        ),
        _reduce,
    ),
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
    **dict.fromkeys(("Softmax", "LogSoftmax", "CumSum"), _along),
    **dict.fromkeys((f"ShiftedChebyshevPolynomial{k}" for k in "TUVW"), _attrs(n=3)),
    **dict.fromkeys(("LaguerrePolynomialL", "LegendrePolynomialP"), _degree),
    **dict.fromkeys(("Select", "MaskedFill"), _select),
    **dict.fromkeys(("LShift", "RShift", "BitShift"), _shift),
    **dict.fromkeys(("RoundToInt", "TruncToInt", "FloorToInt", "CeilToInt"), _whole),
    **dict.fromkeys(("Gather", "GatherElements"), _gather),
    "Cast": _cast,
    "BitCast": _bit_cast,
    "Broadcast": _broadcast,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Slice": _slice,
    "Concat": _concat,
    "Pad": _pad,
    "Iota": _iota,
}
#: The ops that users write, by name.
OPS: Mapping[str, OpDef] = {row.name: row for row in all_ops(user=True)}


def add_op(m: Maker, op: str, x: str, other: str | None = None) -> str | None:
    """The result of a node of ``op`` on a tensor, and on ``other`` of the same type and shape where it takes two.

    Returns:
        The name of the new tensor; None where the op does not take the tensor.
    """
    return STEPS.get(op, _plain)(m, OPS[op], x, other or x)


def of_one_op(rng: Any, op: str) -> Iterator[FusionGraph]:
    """Two graphs of one op, of two dtypes, with known sizes or with symbols."""
    left = 2
    for dtype in rng.sample(DTYPES, len(DTYPES)):
        m = Maker(rng, symbolic=rng.random() < 0.5)
        shape = m.shape(budget=500)
        made = add_op(m, op, m.input(dtype, shape), m.input(dtype, shape))
        if made is not None and left:
            left -= 1
            m.outputs = [made]
            yield api.read(m.case(op).document)
