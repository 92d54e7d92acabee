"""Graphs for shape storms: one operator family each, any rank, size, dtype and axis, constant or symbolic sizes.

A case is a graph document (``autofuse.graph/1``), so that one that fails is its own reproducer.  Everything is drawn
from a ``random.Random``: a plain one makes volume (``benchmarks/fuzzing/storm.py``), one from hypothesis shrinks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

from storm_cases import Case, chip_of
from storm_maker import AWKWARD, BUDGET, DTYPES, FLOATS, INTS, LARGEST, Dim, Maker
from whole_blocks import dtypes_of, may_be_drawn

from autofuse import api
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.targets import load_target

#: Cases that are drawn until a chip can have a kernel for one.
DRAWS = 12


def dtype_of(m: Maker, pool: Sequence[str] = DTYPES) -> str:
    dtype = m.of(FLOATS) if pool is DTYPES and m.chance(40) else m.of(pool)
    m.unit = max(1, m.block // BY_NAME[dtype].itemsize)
    return dtype


def reduced(shape: Sequence[Dim], axes: Sequence[int], keepdims: bool) -> tuple[Dim, ...]:
    gone = set(axes) if axes else set(range(len(shape)))
    if keepdims:
        return tuple(1 if i in gone else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in gone)


def add_reduce(m: Maker, x: str) -> str:
    """A reduction of ``x``, of a kind that its dtype has."""
    dtype, shape = m.tensors[x]
    rank = len(shape)
    axes = sorted(m.rng.sample(range(rank), m.rng.randint(1, rank)))
    given = [a - rank if m.chance(20) else a for a in axes]
    if dtype == "bool":
        kind = m.rng.choice(("ReduceAny", "ReduceAll"))
    else:
        kinds = ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ArgMax", "ArgMin"]
        kinds += ["ReduceMean", "ReduceSum"] if dtype in FLOATS else []
        kind = m.rng.choice(kinds)
    nothing = any(m.value(shape[a]) == 0 for a in axes)
    if nothing and kind in ("ReduceMax", "ReduceMin", "ArgMax", "ArgMin"):
        kind = "ReduceSum"  # there is no largest of no elements
    keep = m.chance(50)
    if kind.startswith("Arg"):
        axis = axes[0]
        to = m.of(("int64", "int32"))
        want = reduced(shape, (axis,), keep)
        return m.node(kind, [x], to, want, axis=axis, keepdims=keep, dtype=to)
    if m.chance(10) and len(axes) == rank:
        given = []
    return m.node(kind, [x], dtype, reduced(shape, axes, keep), axes=given, keepdims=keep)


def reduce(m: Maker) -> None:
    """Reductions of every kind, with element-wise ops before and after."""
    dtype, shape = dtype_of(m), m.shape()
    x = m.input(dtype, shape)
    x = m.maybe(x)
    if m.chance(25) and dtype != "bool":
        other = m.input(dtype, m.narrower(shape))
        x = m.node("Add", [x, other], dtype, shape)
    y = add_reduce(m, x)
    m.outputs.append(m.maybe(y))
    ydtype, yshape = m.tensors[y]
    if len(yshape) == len(shape) and ydtype == dtype and m.chance(50):
        op = "LogicalAnd" if dtype == "bool" else m.rng.choice(("Sub", "Maximum"))
        both = m.node(op, [x, y], dtype, shape)
        m.outputs.append(both)
        if m.chance(50):
            m.outputs.append(add_reduce(m, both))
    elif yshape and m.chance(20) and 0 not in yshape:
        m.outputs.append(add_reduce(m, y))


def long_shape(m: Maker) -> tuple[tuple[Dim, ...], int]:
    """Sizes of which one is long, or a symbol that may be; and which one."""
    kept = m.sizes(m.rng.choice((1, 2)), budget=m.rng.choice((1, 8, 64, 400)))
    axis = m.rng.randint(0, len(kept))
    if m.symbolic:
        name = f"s{len(m.symbols)}"
        m.symbols[name], m.least[name] = m.rng.choice((1, 47, 48, 49, 97, 500, 6007)), 0
        m.unknown.add(name)
        size: Dim = name if m.unit == 1 else f"{m.unit}*{name}"
    else:
        size = m.whole(max(1, m.rng.choice((90_001, 131_072, 200_003)) // max(math.prod(kept), 1)))
    return (*map(m.dim, kept[:axis]), size, *map(m.dim, kept[axis:])), axis


def long(m: Maker) -> None:
    """Reductions of much to little: the cores share what is reduced, as far as it is long in a call."""
    dtype = dtype_of(m, (*FLOATS, "int32", "int16", "bool"))
    shape, axis = long_shape(m)
    x = m.maybe(m.input(dtype, shape), 30)
    axes = sorted({axis, *(d for d in range(len(shape)) if m.chance(30))})
    if dtype in FLOATS and m.chance(50):
        m.outputs.append(m.maybe(add_norm(m, x, axes), 30))
        return
    keep = m.chance(50)
    kinds = ("ReduceAny", "ReduceAll") if dtype == "bool" else ("ReduceSum", "ReduceProd")
    if dtype != "bool" and all(m.value(shape[a]) for a in axes):
        kinds = (*kinds, "ReduceMax", "ReduceMin")
    want = reduced(shape, axes, keep)
    y = m.node(m.rng.choice(kinds), [x], dtype, want, axes=axes, keepdims=keep)
    m.outputs.append(m.maybe(y, 30))
    if keep and dtype != "bool" and m.chance(30):
        m.outputs.append(m.node("Maximum", [x, y], dtype, shape))


def norm(m: Maker) -> None:
    """Softmax and its logarithm, layer norm, RMS norm, log-sum-exp; also rows that do not fit UB."""
    dtype = dtype_of(m, FLOATS)
    shape = m.shape()
    rank = len(shape)
    m.ub_bytes = (None, 60_000, 16_000)
    x = m.maybe(m.input(dtype, shape), 25)
    first = m.rng.randrange(rank)
    y = add_norm(m, x, list(range(first, rank)) if m.chance(80) else [first])
    m.outputs.append(m.maybe(y, 25))


def add_norm(m: Maker, x: str, axes: list[int]) -> str:
    """What is made of the statistics of ``x`` along ``axes``, or along one of them."""
    dtype, shape = m.tensors[x]
    kind = m.rng.choice(("Softmax", "LogSoftmax", "layer", "rms", "log-sum-exp"))
    if kind in ("Softmax", "LogSoftmax"):
        axis = m.rng.choice(axes)
        return m.node(kind, [x], dtype, shape, axis=axis - m.rng.choice((0, len(shape))))
    one = reduced(shape, axes, True)
    if kind == "log-sum-exp" and all(m.value(d) for d in shape):
        top = m.node("ReduceMax", [x], dtype, one, axes=axes, keepdims=True)
        below = m.node("Sub", [x, top], dtype, shape)
        if m.chance(20):
            below = m.node("Mul", [below, 0.5], dtype, shape)
        power = m.node("Exp", [below], dtype, shape)
        if m.chance(20):
            power = m.node("Mul", [power, m.input(dtype, m.rng.choice((shape, one)))], dtype, shape)
            return m.node("ReduceSum", [power], dtype, one, axes=axes, keepdims=True)
        total = m.node("ReduceSum", [power], dtype, one, axes=axes, keepdims=True)
        y = m.node("Add", [m.node("Ln", [total], dtype, one), top], dtype, one)
        return m.node("Sub", [x, y], dtype, shape) if m.chance(50) else y
    if kind == "layer":
        mean = m.node("ReduceMean", [x], dtype, one, axes=axes, keepdims=True)
        x = m.node("Sub", [x, mean], dtype, shape)
    square = m.node("Mul", [x, x], dtype, shape)
    power = m.node("ReduceMean", [square], dtype, one, axes=axes, keepdims=True)
    root = m.node("Rsqrt", [m.node("Add", [power, 1e-3], dtype, one)], dtype, one)
    if m.chance(20):
        m.outputs.append(root)
    y = m.node("Mul", [x, root], dtype, shape)
    tail = shape[axes[0] :]
    if m.chance(70):
        y = m.node("Mul", [y, m.input(dtype, tail)], dtype, shape)
    if m.chance(50):
        y = m.node("Add", [y, m.input(dtype, tail)], dtype, shape)
    return y


def concat(m: Maker) -> None:
    """One to six pieces along any axis."""
    dtype, shape = dtype_of(m), m.shape(budget=BUDGET // 4)
    axis = m.rng.randrange(len(shape))
    pieces: list[str] = []
    rest = m.count([d for i, d in enumerate(shape) if i != axis])
    for _ in range(m.rng.randint(1, 6)):
        if pieces and m.chance(15):
            pieces.append(m.rng.choice(pieces))
            continue
        most = max(1, min(LARGEST, BUDGET // 4 // max(rest, 1)))
        d = shape[axis] if m.chance(30) else m.dim(m.whole(m.size(most)))
        pieces.append(m.maybe(m.input(dtype, (*shape[:axis], d, *shape[axis + 1 :])), 30))
    y = add_concat(m, pieces, axis)
    m.outputs.append(m.maybe(y, 30))
    if m.chance(20):
        m.outputs.append(m.rng.choice(pieces))


def add_concat(m: Maker, pieces: Sequence[str], axis: int) -> str:
    dtype, shape = m.tensors[pieces[0]]
    along = [m.tensors[p][1][axis] for p in pieces]
    total = sum(d for d in along if isinstance(d, int))
    names = [d for d in along if isinstance(d, str)]
    size: Dim = "+".join([*names, str(total)]) if names else total
    given = axis - len(shape) if m.chance(20) else axis
    whole = (*shape[:axis], size, *shape[axis + 1 :])
    return m.node("Concat", pieces, dtype, whole, axis=given)


def add_slice(m: Maker, x: str) -> str:
    """A regular part of ``x``; symbolic sizes lose a constant number of elements, or are taken whole."""
    dtype, shape = m.tensors[x]
    starts: list[Dim] = []
    sizes: list[Dim] = []
    steps: list[int] = []
    for d in shape:
        if m.value(d) == 0 or m.chance(35):
            starts, sizes, steps = [*starts, 0], [*sizes, d], [*steps, 1]
            continue
        if isinstance(d, str):
            # What is behind the last element that a start and a step of 1 take.
            first = 0 if d not in m.least else min(m.rng.choice((0, 1, 3)), m.value(d))
            if d in m.least:
                m.least[d] = max(m.least[d], first)
            starts, steps = [*starts, first], [*steps, 1]
            sizes.append(f"{d}-{first}" if first else d)
            continue
        step = m.rng.choice((1, 1, 1, 2, 3, 7, -1, -2))
        count = m.rng.randint(0 if m.chance(5) else 1, -(-d // abs(step)))
        reach = max(count - 1, 0) * abs(step)
        low = m.rng.randint(0, d - 1 - reach)
        starts.append(low + reach if step < 0 else low)
        sizes.append(count)
        steps.append(step)
    return m.node("Slice", [x], dtype, sizes, starts=starts, shape=sizes, steps=steps)


def slices(m: Maker) -> None:
    """Offsets and steps along any axes."""
    dtype = dtype_of(m)
    x = m.maybe(m.input(dtype, m.shape()), 25)
    for _ in range(m.rng.randint(1, 2)):
        m.outputs.append(m.maybe(add_slice(m, x)))


def add_transpose(m: Maker, x: str) -> str:
    dtype, shape = m.tensors[x]
    perm = list(range(len(shape)))
    m.rng.shuffle(perm)
    return m.node("Transpose", [x], dtype, [shape[p] for p in perm], perm=perm)


def transpose(m: Maker) -> None:
    """Any order of the axes, perhaps beside the tensor as it was or a broadcast one."""
    dtype = dtype_of(m)
    x = m.maybe(m.input(dtype, m.shape()), 30)
    y = add_transpose(m, x)
    shape = m.tensors[y][1]
    if m.chance(35):
        op = "LogicalOr" if dtype == "bool" else "Add"
        y = m.node(op, [y, m.input(dtype, m.narrower(shape))], dtype, shape)
    m.outputs.append(m.maybe(y))
    if m.chance(15):
        m.outputs.append(add_transpose(m, y))


def broadcast(m: Maker) -> None:
    """Operands with any pattern of ones, and of any lower rank."""
    dtype, shape = dtype_of(m), m.shape()
    y = m.input(dtype, m.narrower(shape) if m.chance(50) else shape)
    y = m.maybe(y, 30)
    if m.tensors[y][1] != shape:
        y = m.node("Broadcast", [y], dtype, shape, shape=list(shape))
    for _ in range(m.rng.randint(0, 3)):
        x = m.maybe(m.input(dtype, m.narrower(shape)), 30)
        op = "LogicalOr" if dtype == "bool" else m.rng.choice(("Add", "Maximum", "Mul", "Sub"))
        y = m.node(op, [y, x] if m.chance(50) else [x, y], dtype, shape)
    m.outputs.append(y)


def add_pad(m: Maker, x: str) -> str:
    dtype, shape = m.tensors[x]
    low, high = ([m.rng.choice((0, 0, 0, 1, 2, 5, 9)) for _ in shape] for _ in range(2))
    if m.unit > 1:
        low[-1:], high[-1:] = ([m.whole(n) for n in side[-1:]] for side in (low, high))
    value = m.rng.choice((0.0, 1.0)) if dtype == "bool" else m.rng.choice((0.0, 1.0, 7.0))
    whole = tuple(
        a + d + b if isinstance(d, int) else f"{d}+{a + b}"
        for a, d, b in zip(low, shape, high, strict=True)
    )
    return m.node("Pad", [x], dtype, whole, low=low, high=high, value=value)


def pad(m: Maker) -> None:
    """Frames of any width around any axes."""
    x = m.maybe(m.input(dtype_of(m), m.shape(budget=BUDGET // 20)), 30)
    m.outputs.append(m.maybe(add_pad(m, x), 30))


def chain(m: Maker) -> None:
    """Two or three families one after the other."""
    x = m.input(dtype_of(m), m.shape(budget=BUDGET // 8))
    for _ in range(m.rng.randint(2, 3)):
        dtype, shape = m.tensors[x]
        kind = m.rng.choice(("reduce", "concat", "slice", "transpose", "pad", "broadcast"))
        if not shape or m.count(shape) == 0 or m.count(shape) > BUDGET:
            break
        if kind == "reduce":
            y = add_reduce(m, x)
            back = m.tensors[y]
            if back[0] == dtype and len(back[1]) == len(shape) and m.chance(60):
                y = m.node("LogicalOr" if dtype == "bool" else "Add", [x, y], dtype, shape)
            x = y
        elif kind == "concat":
            axis = m.rng.randrange(len(shape))
            other = m.elementwise(x) if m.chance(50) else m.input(dtype, shape)
            x = add_concat(m, m.rng.choice(([x, other], [other, x], [x, x])), axis)
        elif kind == "slice":
            x = add_slice(m, x)
        elif kind == "transpose":
            x = add_transpose(m, x)
        elif kind == "pad":
            x = add_pad(m, x)
        else:
            other = m.input(dtype, m.narrower(shape))
            x = m.node("LogicalOr" if dtype == "bool" else "Add", [x, other], dtype, shape)
        x = m.maybe(x, 25)
    m.outputs.append(x)


def add_gather(m: Maker, x: str) -> str:
    """Elements along an axis, by a tensor of up to two dimensions that is an input, or moved."""
    dtype, shape = m.tensors[x]
    axis = m.rng.randrange(len(shape))
    kind = m.of(("int32", "int64"))
    if m.chance(20):
        index = tuple(
            s if i == axis or isinstance(s, str) else m.rng.randint(1, s)
            for i, s in enumerate(shape)
        )
        if all(isinstance(s, str) or s > 0 for s in shape):
            i = m.input(kind, index)
            return m.node(
                "GatherElements", [x, i], dtype, index, axis=axis - m.rng.choice((0, len(shape)))
            )
    sizes = m.sizes(m.rng.choice((1, 1, 2)), budget=max(1, BUDGET // max(m.count(shape), 1)))
    places = tuple(m.dim(s) for s in sizes) if m.chance(90) else ()
    i = m.input(kind, places)
    if len(places) == 2 and m.chance(30):
        i = m.node("Transpose", [i], kind, places[::-1], perm=[1, 0])
        places = places[::-1]
    result = (*shape[:axis], *places, *shape[axis + 1 :])
    return m.node("Gather", [x, i], dtype, result, axis=axis - m.rng.choice((0, len(shape))))


def gather(m: Maker) -> None:
    """Elements at the places that a tensor says, of an input or of what is computed."""
    shape = tuple(m.dim(max(s, 1), least=1) for s in m.sizes(budget=BUDGET // 20))
    x = m.maybe(m.input(dtype_of(m), shape), 25)
    y = m.maybe(add_gather(m, x), 50)
    dtype, shape = m.tensors[y]
    if m.chance(25) and len(shape) > 1:
        y = add_transpose(m, y)
    elif m.chance(25) and shape:
        op = "LogicalOr" if dtype == "bool" else "Add"
        y = m.node(op, [y, m.input(dtype, m.narrower(shape))], dtype, shape)
    m.outputs.append(y)


def add_sum(m: Maker, x: str) -> str:
    dtype, shape = m.tensors[x]
    axis = m.rng.randrange(len(shape)) - m.rng.choice((0, len(shape)))
    flags = {"exclusive": m.chance(40), "reverse": m.chance(40)}
    return m.node("CumSum", [x], dtype, shape, axis=axis, **flags)


def running(m: Maker) -> None:
    """Running sums along any axis, with something before and after, perhaps of each other."""
    shape = long_shape(m)[0] if m.chance(30) else m.shape()
    x = m.input(m.of((*FLOATS, *INTS)), shape)
    y = m.maybe(add_sum(m, m.maybe(x, 30)), 40)
    if m.chance(20):
        y = add_sum(m, y)
    if m.chance(25):
        y = add_transpose(m, y)
    elif m.chance(25):
        dtype, shape = m.tensors[y]
        y = m.node("Add", [y, m.input(dtype, m.narrower(shape))], dtype, shape)
    m.outputs.append(y)


def short_rows(m: Maker) -> tuple[Dim, ...]:
    """A shape whose last size is small and whose size before it often is not."""
    width = m.whole(m.rng.choice((1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 12, 16)))
    rows = m.dim(m.whole(m.rng.choice((*AWKWARD, 200, 300, 1000))))
    around = m.sizes(m.rng.choice((1, 1, 2)), budget=12) if m.chance(60) else ()
    return (*map(m.dim, around), rows, width)


def narrow(m: Maker) -> None:
    """Short rows that are long ones in UB: columns put side by side, taken apart, reduced, turned."""
    dtype, shape = dtype_of(m, (*FLOATS, "int32", "int16", "int8", "int64", "bool")), short_rows(m)
    last = len(shape) - 1
    x = m.maybe(m.input(dtype, shape))
    if m.chance(35):  # columns that are computed
        parts = [x]
        for _ in range(m.rng.randint(1, 4)):
            same = m.chance(70)
            size = shape[last] if same else m.rng.randint(1, 4)
            parts.append(m.maybe(m.input(dtype, (*shape[:last], size))))
        x = add_concat(m, parts, last)
    elif m.chance(50):  # one column of each, perhaps from one tensor
        size = shape[last]
        assert isinstance(size, int)
        one, parts = (*shape[:last], 1), []
        for c in m.rng.sample(range(size), min(size, 3)):
            start = [*(0 for _ in range(last)), c]
            y = m.node(
                "Slice", [x], dtype, one, starts=start, shape=list(one), steps=[1] * (last + 1)
            )
            parts.append(m.maybe(y, 60))
        x = add_concat(m, parts, last)
    elif m.chance(40):
        x = add_transpose(m, x)
    x = m.maybe(x, 25)
    dtype, shape = m.tensors[x]
    if m.chance(30):
        x = m.node(
            "LogicalOr" if dtype == "bool" else "Add",
            [x, m.input(dtype, m.narrower(shape))],
            dtype,
            shape,
        )
    if m.chance(45):
        if m.chance(30):
            m.outputs.append(x)
        x = add_reduce(m, x)
    m.outputs.append(m.maybe(x, 25))


FAMILIES: dict[str, Callable[[Maker], None]] = {
    "reduce": reduce,
    "long": long,
    "norm": norm,
    "concat": concat,
    "slice": slices,
    "transpose": transpose,
    "broadcast": broadcast,
    "pad": pad,
    "gather": gather,
    "running": running,
    "narrow": narrow,
    "chain": chain,
}


def random_case(rng: Random, family: str, target: str = api.DEFAULT_TARGET) -> Case:
    """A case of a family; for a chip without DataCopyPad nearly always one that it must have a kernel for."""
    arch = load_target(target).arch
    if arch.has_datacopypad:
        return _drawn(Maker(rng, symbolic=rng.randint(0, 99) < 40), family)
    any_case = rng.randint(0, 99) < 5
    for _ in range(DRAWS):
        m = Maker(rng, symbolic=rng.randint(0, 99) < 40)
        if not any_case:
            m.dtypes, m.block = dtypes_of(arch, DTYPES), arch.block_bytes
            m.unit = m.block
        case = _drawn(m, family)
        if any_case or may_be_drawn(api.read(case.document), chip_of(case, target)):
            break
    return case


def _drawn(m: Maker, family: str) -> Case:
    FAMILIES[family](m)
    return m.case(family)
