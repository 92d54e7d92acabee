"""What a client of CANN's interface calls, from its graphs to pointers in ``kernel.so``, against NumPy.

One file: the libraries that its tests call are built once for all of them.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from client_calls import POISON, Calls, Library, executed, fused, generated

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.pyautofuse import Autofuser, AutofuserOptions, CodeGen, Schedule, ascir
from autofuse.pyautofuse.platform import chip
from autofuse.targets import load_target

pytestmark = pytest.mark.twin

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
    rng = np.random.default_rng()
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


@pytest.mark.parametrize("name", EXAMPLES)
def test_fixed_sizes(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name](False)
    compare(example, Library(generated(example.text), tmp_path), 12, ())


@pytest.mark.parametrize("name", EXAMPLES)
def test_one_library_for_all_sizes(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name](True)
    library = Library(generated(example.text), tmp_path)
    for n in (12, 1, 7, 131):
        compare(example, library, n, (n,))


@pytest.mark.parametrize("name", ["add_relu", "halves", "part_of_rows", "two_graphs"])
def test_no_elements(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name](True)
    compare(example, Library(generated(example.text), tmp_path), 0, (0,))


def test_the_output_may_be_the_input(tmp_path: Path) -> None:
    """A client that has no more use for a buffer passes it as both."""
    example = softmax(True, "float16", F16, 1e-3)
    library = Library(generated(example.text), tmp_path)
    for n in (5, 200):
        (x,) = arrays(example.inputs(n))
        want = example.reference([x.copy()])[0]
        library([x], [x], (n,))
        np.testing.assert_allclose(x.astype(np.float64), want, rtol=1e-3, atol=1e-3)


def in_place_text(both: bool) -> str:
    """exp(x) is stored in the pass over x that x / sum(x) needs first; nothing takes x after it is stored."""
    c = Calls("g", [9, 30000])
    x = c.load(c.data("float32"))
    part = c.op("Add", x, c.load(c.data("float32"))) if both else x
    total = c.op("Broadcast", c.op("Sum", c.op("Abs", part), sizes=[9, 1]))
    c.store(c.op("TrueDiv", part, total))
    c.store(c.op("Exp", part))
    return fused("in_place", [(c, [f"in{k}" for k in range(c.inputs)])])


def test_one_of_two_outputs_may_be_the_input(tmp_path: Path) -> None:
    library = Library(generated(in_place_text(False)), tmp_path)
    (x,) = arrays([(F32, (9, 30000))])
    y, kept = np.zeros_like(x), x.copy()
    library([x], [y, x])
    total = np.abs(kept.astype(np.float64)).sum(1, keepdims=True)
    np.testing.assert_allclose(y, kept / total, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(x, np.exp(kept), rtol=1e-6)


def test_either_of_two_inputs_may_be_the_output(tmp_path: Path) -> None:
    library = Library(generated(in_place_text(True)), tmp_path)
    a, b = arrays([(F32, (9, 30000))] * 2)
    want = np.exp(a + b)
    for shared in (0, 1):
        given = [a.copy(), b.copy()]
        library(given, [np.zeros_like(a), given[shared]])
        np.testing.assert_allclose(given[shared], want, rtol=2e-6)


def test_a_transposed_input_may_not_be_the_output(tmp_path: Path) -> None:
    """``x + x.T`` over x: no client may do that, and the launcher says so."""
    c = Calls("g", [40, 40])
    x = c.data("float32")
    turned = c.transpose(c.load(x, axes=["a1", "a0"]), [40, 40])
    c.store(c.op("Add", c.load(x), turned))
    library = Library(generated(fused("turned", [(c, ["in0"])])), tmp_path)
    (x,) = arrays([(F32, (40, 40))])
    y, kept = np.zeros_like(x), x.copy()
    library([x], [y])
    np.testing.assert_array_equal(y, x + x.T)
    with pytest.raises(AssertionError, match="14"):
        library([x], [x])
    np.testing.assert_array_equal(x, kept)


def test_a_buffer_that_may_not_be_shared_is_refused(tmp_path: Path) -> None:
    """A buffer that is loaded in two layouts cannot be overwritten: the launcher says so, and writes nothing."""
    c = Calls("g", [40, 40])
    x = c.data("float32")
    first = c.op("Broadcast", c.load(x, [1, 40]))
    c.store(c.op("Sub", c.load(x), first))
    library = Library(generated(fused("first_row", [(c, ["in0"])])), tmp_path)
    (x,) = arrays([(F32, (40, 40))])
    y, kept = np.zeros_like(x), x.copy()
    library([x], [y])
    np.testing.assert_array_equal(y, x - x[0])
    with pytest.raises(AssertionError, match="14"):
        library([x], [x])
    np.testing.assert_array_equal(x, kept)


def test_a_table_may_not_be_the_output(tmp_path: Path) -> None:
    """Elements change places, although table, places and result have the same axis."""
    c = Calls("g", [64])
    rows, at = table(c, "float32", [64], ["a0"]), c.load(c.data("int32"))
    c.store(c.gather(rows, at, 0, [64], ["a0"]))
    library = Library(generated(fused("turned", [(c, ["in0", "in1"])])), tmp_path)
    (x,) = arrays([(F32, (64,))])
    places, kept = np.arange(64, dtype=np.int32)[::-1].copy(), x.copy()
    y = np.zeros_like(x)
    library([x, places], [y])
    np.testing.assert_array_equal(y, x[::-1])
    with pytest.raises(AssertionError, match="14"):
        library([x, places], [x])
    np.testing.assert_array_equal(x, kept)


def test_sizes_are_passed_by_number(tmp_path: Path) -> None:
    """Clients make ks10 before ks2, as texts are sorted, and pass ks2 first; they pass what nothing needs, too."""
    symbols = [f"ks{i}" for i in range(12)]
    c = Calls("g", ["ks2", "2*ks10 + 1"], symbols)
    c.store(c.op("Abs", c.load(c.data("float32"))))
    library = Library(generated(fused("numbered", [(c, ["in0"])])), tmp_path)
    values = list(range(100, 112))
    values[2], values[10] = 5, 3
    (x,) = arrays([(F32, (5, 7))])
    y = np.zeros_like(x)
    library([x], [y], values)
    np.testing.assert_array_equal(y, np.abs(x))


def test_sizes_out_of_range_are_refused(tmp_path: Path) -> None:
    c = Calls("g", ["ks0", "ks0 - 3"], ["ks0"])
    c.store(c.op("Abs", c.load(c.data("float32"))))
    library = Library(generated(fused("ranged", [(c, ["in0"])])), tmp_path)
    assert library.tiling(2)[0] != 0
    assert library.tiling(9)[0] == 0
    assert library.tiling(1 << 40)[0] != 0


def test_an_input_that_nothing_reads_is_still_a_parameter(tmp_path: Path) -> None:
    c = Calls("g", [12, 10])
    c.data("float32")
    x = c.data("float32")
    c.store(c.op("Abs", c.load(x)))
    library = Library(generated(fused("unread", [(c, ["in0", "in1"])])), tmp_path)
    a, b = arrays([(F32, (12, 10))] * 2)
    y = np.zeros_like(b)
    library([a, b], [y])
    np.testing.assert_array_equal(y, np.abs(b))


@pytest.mark.parametrize("views", [False, True])
def test_a_graph_that_needs_several_kernels(
    tmp_path: Path, views: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little UB the library holds a driver and its kernels, and is called in the same way."""
    monkeypatch.setattr(
        AutofuserOptions, "spec", property(lambda _: load_target("ascend910b1").with_ub(2048))
    )
    c = Calls("g", [30, 64])
    loads = []
    for _ in range(12):
        x = c.data("float32")
        loads.append(c.load(x, strides=[80, 1], offset=4) if views else c.load(x))
    total = c.op("Mul", loads[0], loads[1])
    for x in (*loads[2:], *loads):
        total = c.op("Add", c.op("Abs", total), x)
    c.store(total, strides=[100, 1] if views else None)
    text = fused("several", [(c, [f"in{k}" for k in range(12)])])
    result = Autofuser().schedule(executed(text))
    assert result.built.split is not None
    library = Library(Autofuser().codegen(result), tmp_path)
    given = arrays([(F32, (30, 80 if views else 64))] * 12)
    y = np.zeros((30, 100 if views else 64), F32)
    library(given, [y])
    seen = [x[:, 4:68] if views else x for x in given]
    want = seen[0] * seen[1]
    for x in (*seen[2:], *seen):
        want = np.abs(want) + x
    np.testing.assert_array_equal(y[:, :64], want)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_kernels_are_verified(name: str) -> None:
    """With races, uninitialised data and hostile orders looked for, and against the reference of the registry."""
    built = Autofuser().schedule(executed(EXAMPLES[name](True).text)).built
    report = api.verify(built, shapes=2, seed=random.randrange(1 << 30), check_seed=3)
    assert report.passed, report


# the three texts -----------------------------------------------------------------------------


def test_texts_survive_where_clients_paste_them() -> None:
    """Clients paste them between triple quotes, in which backslashes mean something."""
    texts = generated(halves(True).text)
    for text in texts:
        scope: dict[str, str] = {}
        exec(f"pasted = '''{text}'''", scope)
        assert scope["pasted"] == text
        assert "\\" not in text


def test_texts_depend_on_the_graph_alone(tmp_path: Path, repo: Path) -> None:
    text = two_graphs(True).text
    program = (
        "import sys, hashlib\nfrom client_calls import generated\n"
        "print(hashlib.sha256(''.join(generated(sys.stdin.read())).encode()).hexdigest())\n"
    )
    path = str(repo / "tests" / "support")
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_tiling_data_is_a_header_of_its_own(tmp_path: Path) -> None:
    """A client's launcher holds a copy of it, made by a compiler that knows nothing of autofuse."""
    (tmp_path / "a.cpp").write_text(
        generated(add_relu(True).text)[0]
        + "int main() { AutofuseTilingData a = {}; AutofuseTilingData b = a;"
        " return static_cast<int>(sizeof(b)) == 0; }\n"
    )
    subprocess.run(
        ["g++", "-std=c++17", "-Wall", "-Werror", "-c", "a.cpp"], cwd=tmp_path, check=True
    )


def test_halves_of_older_clients(tmp_path: Path) -> None:
    """Schedule and CodeGen give what an Autofuser gives."""
    text = add_relu(True).text
    result = Schedule().schedule(executed(text))
    maker = CodeGen()
    tiling, device = maker.device_code_generator(result)
    host, _ = maker.host_code_generator(result)
    texts = (tiling["default"], host["default"]["host_impl"], device["default"])
    assert texts == generated(text)
    assert (result.get_name(), result.get_input_num(), result.get_output_num()) == (
        "add_relu",
        2,
        1,
    )
    assert (result.is_cube_type(), result.is_conv_type(), result.get_cube_attributes()) == (
        False,
        False,
        {},
    )
    fuser = Autofuser()
    assert fuser.autofuse_backend(executed(text)) == generated(text)


def test_a_hint_graph_alone(tmp_path: Path) -> None:
    graph = executed(add_relu(True).text).operators
    hint = next(n.subgraph for n in graph if n.subgraph is not None)
    assert (hint.get_input_num(), hint.get_output_num()) == (2, 1)
    hint.set_name("alone")
    library = Library(Autofuser().autofuse_backend(hint), tmp_path)
    compare(add_relu(True), library, 9, (9,))


def test_the_chip_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autofuse.pyautofuse.platform._chosen", [])
    ascir.utils.set_platform("2201", aiv_num=20, ub_size=100_000)
    assert chip().aiv_cores == 20
    text = add_relu(True).text
    assert generated(text) != generated(text, target="ascend910b1")
    ascir.utils.set_platform("9999")
    with pytest.raises(AutofuseError, match="AF5006"):
        generated(text)


@pytest.mark.parametrize("dynamic", [False, True])
def test_loads_that_walk_backwards(dynamic: bool, tmp_path: Path) -> None:
    example = flips(dynamic)
    library = Library(generated(example.text), tmp_path)
    for n in (12, 1, 7, 131) if dynamic else (12,):
        compare(example, library, n, (n, 21) if dynamic else ())
