"""Graphs of clients of CANN's interface, and what NumPy makes of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import draws
import ml_dtypes
import numpy as np
from client_calls import POISON, Calls, Library, fused

Arrays = list[np.ndarray]
F32, F16, BF16, U8 = np.float32, np.float16, ml_dtypes.bfloat16, np.uint8


@dataclass(frozen=True)
class Example:
    """A client's text; shapes of its arrays for a size; what NumPy gives for the inputs."""

    text: str
    inputs: Callable[[int], list[tuple[type, tuple[int, ...]]]]
    outputs: Callable[[int], list[tuple[type, tuple[int, ...]]]]
    reference: Callable[[Arrays], Sequence[np.ndarray]]
    tolerance: float = 0.0


def size(dynamic: bool) -> str:
    return "ks0" if dynamic else "12"


def names(dynamic: bool) -> list[str]:
    return ["ks0"] if dynamic else []


def add_relu(dynamic: bool) -> Example:
    c = Calls("g", [size(dynamic), 50], names(dynamic))
    x, y = c.data("float32"), c.data("float32")
    c.store(c.op("Relu", c.op("Add", c.load(x), c.load(y))))
    return Example(
        fused("add_relu", [(c, ["in0", "in1"])]),
        lambda n: [(F32, (n, 50)), (F32, (n, 50))],
        lambda n: [(F32, (n, 50))],
        lambda a: [np.maximum(a[0] + a[1], 0)],
    )


def softmax(dynamic: bool, low: str, dtype: type, tolerance: float) -> Example:
    n = size(dynamic)
    c = Calls("g", [n, 41], names(dynamic))
    x = c.op("Cast", c.load(c.data(low)), dtype="float32")
    top = c.op("Broadcast", c.op("Max", x, sizes=[n, 1]))
    e = c.op("Exp", c.op("Sub", x, top))
    y = c.op("TrueDiv", e, c.op("Broadcast", c.op("Sum", e, sizes=[n, 1])))
    # Clients cast to float32 once more before they cast back.
    again = c.op("Cast", y, dtype="float32")
    c.store(c.op("Cast", again, dtype=low), low)

    def reference(a: Arrays) -> Arrays:
        wide = a[0].astype(np.float64)
        e = np.exp(wide - wide.max(1, keepdims=True))
        return [e / e.sum(1, keepdims=True)]

    return Example(
        fused("softmax", [(c, ["in0"])]),
        lambda n: [(dtype, (n, 41))],
        lambda n: [(dtype, (n, 41))],
        reference,
        tolerance,
    )


def broadcast_road(dynamic: bool) -> Example:
    """A bias along the last axis, and a factor per row, each widened axis by axis."""
    n = size(dynamic)
    c = Calls("g", [n, 3, 20], names(dynamic))
    x = c.load(c.data("float32"))
    b = c.load(c.data("float32"), [1, 1, 20], [0, 0, 1])
    b = c.op("Broadcast", b, sizes=[n, 1, 20])
    b = c.op("Broadcast", b)
    f = c.load(c.data("float32"), [n, 1, 1], [1, 0, 0])
    f = c.op("Broadcast", f, sizes=[n, 3, 1])
    f = c.op("Broadcast", f)
    c.store(c.op("Mul", c.op("Add", x, b), f))
    return Example(
        fused("broadcast_road", [(c, ["in0", "in1", "in2"])]),
        lambda n: [(F32, (n, 3, 20)), (F32, (20,)), (F32, (n,))],
        lambda n: [(F32, (n, 3, 20))],
        lambda a: [(a[0] + a[1]) * a[2][:, None, None]],
    )


def transpose_road(dynamic: bool) -> Example:
    """``y * x.transpose(0, 1)``: x is loaded in the order of its memory."""
    n = size(dynamic)
    c = Calls("g", [n, 18], names(dynamic))
    x = c.load(c.data("float32"), [18, n], axes=["a1", "a0"])
    x = c.transpose(x, [n, 18])
    c.store(c.op("Mul", x, c.load(c.data("float32"))))
    return Example(
        fused("transpose_road", [(c, ["in0", "in1"])]),
        lambda n: [(F32, (18, n)), (F32, (n, 18))],
        lambda n: [(F32, (n, 18))],
        lambda a: [a[0].T * a[1]],
    )


def transposed_store(dynamic: bool) -> Example:
    """An output whose memory has the axes in the other order."""
    n = size(dynamic)
    c = Calls("g", [n, 18], names(dynamic))
    c.store(c.op("Neg", c.load(c.data("float32"))), strides=["1", n])
    return Example(
        fused("transposed_store", [(c, ["in0"])]),
        lambda n: [(F32, (n, 18))],
        lambda n: [(F32, (18, n))],
        lambda a: [-a[0].T],
    )


def halves(dynamic: bool) -> Example:
    """Both halves of the rows of one buffer: two views of one parameter of the client."""
    n = size(dynamic)
    c = Calls("g", [n, 23], names(dynamic))
    x = c.data("float32")
    a, b = c.load(x, strides=[46, 1]), c.load(x, strides=[46, 1], offset=23)
    c.store(c.op("Mul", c.op("Sigmoid", a), b))
    return Example(
        fused("halves", [(c, ["in0"])]),
        lambda n: [(F32, (n, 46))],
        lambda n: [(F32, (n, 23))],
        lambda a: [a[0][:, 23:] / (1 + np.exp(-a[0][:, :23].astype(np.float64)))],
        1e-6,
    )


def every_second(dynamic: bool) -> Example:
    c = Calls("g", [size(dynamic), 16], names(dynamic))
    x = c.data("float32")
    a, b = c.load(x, strides=[32, 2]), c.load(x, strides=[32, 2], offset=1)
    c.store(c.op("Sub", a, b))
    return Example(
        fused("every_second", [(c, ["in0"])]),
        lambda n: [(F32, (n, 32))],
        lambda n: [(F32, (n, 16))],
        lambda a: [a[0][:, ::2] - a[0][:, 1::2]],
    )


def flips(dynamic: bool) -> Example:
    """Rows from the last to the first, columns from the last to the first, and both, of one buffer."""
    n, rest = size(dynamic), ["m"] if dynamic else []
    m = "m" if dynamic else "21"
    c = Calls("g", [n, m], [*names(dynamic), *rest])
    x = c.data("float32")
    for strides, offset in (
        ([f"-{m}", 1], f"({n} - 1) * {m}"),
        ([m, -1], f"{m} - 1"),
        ([f"-{m}", -1], f"{n} * {m} - 1"),
    ):
        c.store(c.op("Add", c.load(x, strides=strides, offset=offset), c.scalar("1")))
    return Example(
        fused("flips", [(c, ["in0"])]),
        lambda n: [(F32, (n, 21))],
        lambda n: [(F32, (n, 21))] * 3,
        lambda a: [a[0][::-1] + 1, a[0][:, ::-1] + 1, a[0][::-1, ::-1] + 1],
    )


def part_of_rows(dynamic: bool) -> Example:
    """Columns 5 to 22 of an output of 40: the others keep what they hold."""
    c = Calls("g", [size(dynamic), 17], names(dynamic))
    c.store(c.op("Abs", c.load(c.data("float32"))), strides=[40, 1], offset=5)

    def reference(a: Arrays) -> Arrays:
        out = np.full((a[0].shape[0], 40 * 4), POISON, np.uint8).view(F32)
        out[:, 5:22] = np.abs(a[0])
        return [out]

    return Example(
        fused("part_of_rows", [(c, ["in0"])]),
        lambda n: [(F32, (n, 17))],
        lambda n: [(F32, (n, 40))],
        reference,
    )


def special_scalars(dynamic: bool) -> Example:
    """Where(x > 0, x, inf), Where(x < 0, -inf, nan), and 1e-06 + x."""
    c = Calls("g", [size(dynamic), 9], names(dynamic))
    x = c.load(c.data("float32"))
    zero = c.op("Cast", c.scalar("0"), dtype="float32")
    c.store(c.op("Where", c.op("Gt", x, zero), x, c.scalar("inf")))
    c.store(c.op("Where", c.op("Lt", x, zero), c.scalar("-inf"), c.scalar("nan")))
    c.store(c.op("Add", x, c.scalar("1e-06")))

    def reference(a: Arrays) -> Arrays:
        x = a[0]
        return [
            np.where(x > 0, x, np.float32("inf")),
            np.where(x < 0, np.float32("-inf"), np.float32("nan")),
            x + np.float32(1e-6),
        ]

    return Example(
        fused("special_scalars", [(c, ["in0"])]),
        lambda n: [(F32, (n, 9))],
        lambda n: [(F32, (n, 9))] * 3,
        reference,
    )


def truth_values(dynamic: bool) -> Example:
    """uint8 in, of which any byte but 0 is true, and uint8 out."""
    c = Calls("g", [size(dynamic), 35], names(dynamic))
    m, x = c.load(c.data("uint8")), c.load(c.data("float32"))
    above = c.op("Gt", x, c.scalar("0.25"))
    both = c.op("LogicalAnd", m, above, dtype="uint8")
    c.store(both, "uint8")
    c.store(c.op("Where", m, x, c.op("Cast", above, dtype="float32")))
    c.store(c.op("BitwiseAnd", above, c.op("LogicalNot", both, dtype="uint8")), "uint8")

    def reference(a: Arrays) -> Arrays:
        m, x = a[0] != 0, a[1]
        above = x > 0.25
        return [
            (m & above).astype(U8),
            np.where(m, x, above.astype(F32)),
            (above & ~(m & above)).astype(U8),
        ]

    return Example(
        fused("truth_values", [(c, ["in0", "in1"])]),
        lambda n: [(U8, (n, 35)), (F32, (n, 35))],
        lambda n: [(U8, (n, 35)), (F32, (n, 35)), (U8, (n, 35))],
        reference,
    )


def filled(dynamic: bool) -> Example:
    """A constant alone, and ops of constants only."""
    c = Calls("g", [size(dynamic), 7], names(dynamic))
    two = c.op("Add", c.scalar("1.5"), c.op("Cast", c.scalar("1", "int32"), dtype="float32"))
    c.store(two)
    c.store(c.op("Mul", c.load(c.data("float32")), c.op("Exp", two)))
    return Example(
        fused("filled", [(c, ["in0"])]),
        lambda n: [(F32, (n, 7))],
        lambda n: [(F32, (n, 7))] * 2,
        lambda a: [np.full_like(a[0], 2.5), a[0] * np.exp(np.float64(2.5))],
        1e-6,
    )


def two_graphs(dynamic: bool) -> Example:
    """The second graph reads what the first one stores: transposed, sliced and widened; both have outputs."""
    n = size(dynamic)
    first = Calls("f", [n, 12], names(dynamic))
    first.store(first.op("Abs", first.load(first.data("float32"))))
    first.store(first.op("Sum", first.load(first.data("float32")), sizes=[n, 1]), sizes=[n, 1])
    second = Calls("s", [5, n], names(dynamic))
    turned = second.load(second.data("float32"), [n, 5], [12, 1], offset=3, axes=["a1", "a0"])
    sums = second.op("Broadcast", second.load(second.data("float32"), [1, n]))
    second.store(second.op("Add", second.transpose(turned, [5, n]), sums))
    text = fused(
        "two_graphs",
        [(second, ["f_y0", "f_y1"]), (first, ["in0", "in1"])],
        outputs=["s_y0", "f_y0"],
        inputs=2,
    )
    # The client lists nodes in the order of their use.
    lines = text.splitlines()
    at = next(i for i, x in enumerate(lines) if x.startswith("s_node.x"))
    lines.insert(next(i for i, x in enumerate(lines) if x.startswith("out0")), lines.pop(at))

    def reference(a: Arrays) -> Arrays:
        first = np.abs(a[0])
        return [first[:, 3:8].T + a[1].astype(np.float64).sum(1)[None, :], first]

    return Example(
        "\n".join(lines),
        lambda n: [(F32, (n, 12)), (F32, (n, 12))],
        lambda n: [(F32, (5, n)), (F32, (n, 12))],
        reference,
        2e-6,
    )


def through_workspace(dynamic: bool) -> Example:
    """One graph that stores to a workspace and loads it again, as its neighbour in memory order."""
    n = size(dynamic)
    c = Calls("g", [n, 4, 6], names(dynamic))
    x = c.op("Exp", c.load(c.data("float32")))
    store = c.node("Store", f"x = {x}.y", *c.layout([n, 4, 6]))
    space = c.node("Workspace", f"x = {store}.y", loop=False)
    back = c.load(space, [n, 6, 4], [24, 1, 6], axes=["a0", "a2", "a1"])
    c.store(c.op("Add", x, c.transpose(back, [n, 4, 6])))
    return Example(
        fused("through_workspace", [(c, ["in0"])]),
        lambda n: [(F32, (n, 4, 6))],
        lambda n: [(F32, (n, 4, 6))],
        lambda a: [2 * np.exp(a[0].astype(np.float64))],
        1e-6,
    )


def reductions(dynamic: bool) -> Example:
    n = size(dynamic)
    c = Calls("g", [n, 3, 8], names(dynamic))
    x = c.load(c.data("float32"))
    c.store(c.op("Sum", x, sizes=[1, 3, 1]), sizes=[1, 3, 1])
    c.store(c.op("Any", c.op("Gt", x, c.scalar("2.0")), sizes=[n, 1, 1]), "uint8", [n, 1, 1])
    c.store(c.op("Min", x, sizes=[n, 3, 1]), sizes=[n, 3, 1])
    return Example(
        fused("reductions", [(c, ["in0"])]),
        lambda n: [(F32, (n, 3, 8))],
        lambda n: [(F32, (3,)), (U8, (n,)), (F32, (n, 3))],
        lambda a: [
            a[0].astype(np.float64).sum((0, 2)),
            (a[0] > 2).any((1, 2)).astype(U8),
            a[0].min(2),
        ],
        1e-4,  # a sum of thousands of numbers of both signs may be near 0, its rounding errors are not
    )


def table(c: Calls, dtype: str, sizes: Sequence[object], axes: Sequence[str]) -> str:
    """An input that a Gather reads where it lies."""
    return c.node_with(c.data(dtype), *c.layout(sizes, axes=axes))


def gathered(dynamic: bool) -> Example:
    """Rows of a table at the places of one input, and columns of it at those of another, loaded one."""
    n = size(dynamic)
    c = Calls("g", [n, 5, 31, 8], names(dynamic))
    rows = table(c, "float32", [31, 8], ["a2", "a3"])
    at = table(c, "int64", [n, 5], ["a0", "a1"])
    picked = c.gather(rows, at, 0, [n, 5, 8], ["a0", "a1", "a3"])
    half = c.node("Mul", f"x1 = {picked}.y", f"x2 = {c.scalar('0.5')}.y")
    c.store(half, sizes=[n, 5, 8], axes=["a0", "a1", "a3"])
    columns = c.load(c.data("int32"), [n], axes=["a0"])
    c.store(c.gather(rows, columns, -1, [31, n], ["a2", "a0"]), sizes=[31, n], axes=["a2", "a0"])
    return Example(
        fused("gathered", [(c, ["in0", "in1", "in2"])]),
        lambda n: [(F32, (31, 8)), (np.int64, (n, 5)), (np.int32, (n,))],
        lambda n: [(F32, (n, 5, 8)), (F32, (31, n))],
        lambda a: [a[0][a[1]] * F32(0.5), a[0][:, a[2]]],
    )


EXAMPLES: dict[str, Callable[[bool], Example]] = {
    "add_relu": add_relu,
    "softmax_float16": lambda d: softmax(d, "float16", F16, 1e-3),
    "softmax_bf16": lambda d: softmax(d, "bf16", BF16, 8e-3),
    "broadcast_road": broadcast_road,
    "transpose_road": transpose_road,
    "transposed_store": transposed_store,
    "halves": halves,
    "every_second": every_second,
    "part_of_rows": part_of_rows,
    "special_scalars": special_scalars,
    "truth_values": truth_values,
    "filled": filled,
    "two_graphs": two_graphs,
    "through_workspace": through_workspace,
    "reductions": reductions,
    "gathered": gathered,
}


def arrays(shapes: list[tuple[type, tuple[int, ...]]]) -> Arrays:
    """Fresh random data of these types."""
    rng = draws.rng()
    out = []
    for dtype, shape in shapes:
        if dtype is U8:
            out.append(rng.choice(np.array([0, 0, 1, 2, 255], U8), shape))
        elif dtype in (np.int32, np.int64):
            out.append(rng.integers(0, 8, shape, dtype))
        else:
            out.append((rng.standard_normal(shape) * 2).astype(dtype))
    return out


def compare(example: Example, library: Library, n: int, symbols: Sequence[int]) -> None:
    given = arrays(example.inputs(n))
    found = [np.zeros(shape, dtype) for dtype, shape in example.outputs(n)]
    library(given, found, symbols)
    for y, want in zip(found, example.reference(given), strict=True):
        if example.tolerance == 0:
            bits = np.ascontiguousarray(want.astype(y.dtype)).view(np.uint8)
            np.testing.assert_array_equal(y.view(np.uint8), bits)
        else:
            wide = want.astype(np.float64)
            np.testing.assert_allclose(
                y.astype(np.float64), wide, rtol=example.tolerance, atol=example.tolerance
            )
