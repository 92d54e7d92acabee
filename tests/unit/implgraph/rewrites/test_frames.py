"""Constants around a tensor along the innermost dimension: whole rows are read, and a mask is over them."""

from __future__ import annotations

from random import Random

import draws
import pytest
from lowering_checks import checked, dims, graph

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Constant, FusionGraph
from autofuse.implgraph.lowering.lowering import groups, lower_written
from autofuse.implgraph.rewrites import frames
from autofuse.implgraph.rewrites.decompose import decompose


def lower_framed(g: FusionGraph):
    return lower_written(decompose(g, frames=True))


def padded(shape, low, high, value=0.0, dtype="float32"):
    attrs = {"low": dims(*low), "high": dims(*high), "value": value}
    return graph({"x": shape}, [("y", "Pad", ["x"], attrs)], ["y"], dtype=dtype)


def window(starts, shape, steps=()):
    return {"starts": dims(*starts), "shape": dims(*shape), "steps": tuple(steps)}


def ops(g):
    return [n.op for n in decompose(g, frames=True).nodes]


@pytest.fixture
def _many_rows(monkeypatch):
    """Rows are cut off, not columns, however few there are."""
    monkeypatch.setattr(frames, "FEW_ROWS", 2)


@pytest.mark.parametrize(("low", "high"), [(1, 0), (0, 2), (2, 1), (7, 7)])
@pytest.mark.parametrize("shape", [(5,), (4, 5), (3, 2, 5)])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_pad_of_rows(low, high, shape, dtype):
    front = (0,) * (len(shape) - 1)
    g = padded(shape, (*front, low), (*front, high), 3.0, dtype)
    assert ops(g)[-1] == "Select"
    checked(g, lower=lower_framed)


def moved_right(shape):
    """Every row one place further to the right, behind a zero."""
    nodes = [
        ("s", "Slice", ["x"], window((0,) * len(shape), (*shape[:-1], shape[-1] - 1))),
        ("y", "Pad", ["s"], {"low": dims(0, 0, 1), "high": dims(0, 0, 0), "value": 0.0}),
    ]
    return graph({"x": shape}, nodes, ["y"])


@pytest.mark.usefixtures("_many_rows")
def test_only_the_first_row_is_cut_off():
    hint = checked(moved_right((6, 7, 5)), lower=lower_framed)
    sizes = [[str(r) for r in n.y.repeats if r != 1] for n in hint.ops("Load")]
    assert sizes == [["4"], ["5", "5"], ["6", "6", "5"]]


def test_of_few_rows_the_column_is_cut_off():
    hint = checked(moved_right((6, 7, 5)), lower=lower_framed)
    assert [[str(r) for r in n.y.repeats if r != 1] for n in hint.ops("Load")] == [["42", "4"]]


def test_rows_do_not_overlap():
    """A copy of rows that overlap in GM is none that a chip can make."""
    for n in checked(padded((6, 7, 5), (0, 0, 1), (0, 0, 1)), lower=lower_framed).ops("Load"):
        pairs = zip(n.y.strides, n.y.repeats, strict=True)
        reach = 0
        for stride, count in sorted((s.value, r.value) for s, r in pairs if r != 1):
            assert stride > reach
            reach += stride * (count - 1)


def test_what_lies_beside_a_slice_needs_no_cut():
    """The rows of a difference, with the zero that its gradient has: they are those of the input."""
    g = graph(
        {"x": (4, 6)},
        [
            ("s", "Slice", ["x"], window((0, 1), (4, 5))),
            ("e", "Exp", ["s"]),
            ("y", "Pad", ["e"], {"low": dims(0, 1), "high": dims(0, 0), "value": 0.0}),
        ],
        ["y"],
    )
    hint = checked(g, lower=lower_framed)
    assert len(groups(hint)) == 1


def test_what_is_no_frame_stays():
    """Of two tensors, of other constants, of rows, of a type without a Select, of a size that only a call knows."""
    zeros = ("z", "Broadcast", [Constant(0.0, BY_NAME["float32"])], {"shape": dims(3, 2)})
    ones = ("o", "Broadcast", [Constant(1.0, BY_NAME["float32"])], {"shape": dims(3, 2)})
    two = ("y", "Concat", ["x", "x", "z"], {"axis": 1})
    other = ("y", "Concat", ["z", "x", "o"], {"axis": 1})
    for nodes in ([zeros, two], [zeros, ones, other]):
        g = graph({"x": (3, 4)}, nodes, ["y"])
        assert "Frame" not in ops(g)
    assert "Frame" not in ops(padded((3, 4), (1, 0), (1, 0)))
    assert "Frame" not in ops(padded((3, 4), (0, 1), (0, 1), dtype="int8"))
    assert "Frame" not in ops(padded((3, 1), (0, 1), (0, 1)))
    sizes = {"low": dims(0, 1), "high": dims(0, 1), "value": 0.0}
    g = graph({"x": (3, "n")}, [("y", "Pad", ["x"], sizes)], ["y"], symbols=("n",))
    assert "Frame" not in ops(g)


def random_nodes(rng: Random) -> tuple[list[int], list[tuple]]:
    """The shape of an input, and pads, slices, sums and reductions one after the other."""
    first = [rng.randint(1, 4) for _ in range(rng.randint(0, 2))] + [rng.randint(2, 6)]
    shapes: dict[str, list[int]] = {"x": first}
    nodes: list[tuple] = []

    def add(op: str, operands: list, sizes: list[int], **attrs) -> str:
        name = f"t{len(nodes)}"
        nodes.append((name, op, operands, attrs))
        shapes[name] = sizes
        return name

    def pad(x: str, d: int) -> str:
        rank = len(shapes[x])
        low, high = ([rng.choice([0, 0, 1, 2]) * (k == d) for k in range(rank)] for _ in "ab")
        shape = [a + n + b for a, n, b in zip(low, shapes[x], high, strict=True)]
        return add(
            "Pad", [x], shape, low=dims(*low), high=dims(*high), value=rng.choice([0.0, 2.0])
        )

    def cut(x: str) -> str:
        starts, sizes, steps = [], [], []
        for n in shapes[x]:
            step = rng.choice([1, 1, 1, -1, 2, -2])
            count = rng.randint(1, (n - 1) // abs(step) + 1)
            room = n - (count - 1) * abs(step)
            start = rng.randrange(room)
            starts.append(start if step > 0 else start + (count - 1) * -step)
            sizes.append(count)
            steps.append(step)
        return add("Slice", [x], sizes, **window(starts, sizes, steps))

    for _ in range(rng.randint(2, 7)):
        x = rng.choice(list(shapes)[-3:])
        rank = len(shapes[x])
        kind = rng.choice(["pad", "pad", "cut", "neg", "add", "sum", "flip"])
        if kind == "pad":
            pad(x, rng.choice([rank - 1, rank - 1, rng.randrange(rank)]))
        elif kind == "cut":
            cut(x)
        elif kind == "neg":
            add("Neg", [x], shapes[x])
        elif kind == "add":
            y = rng.choice([k for k in shapes if shapes[k] == shapes[x]])
            add("Add", [x, y], shapes[x])
        elif kind == "sum" and rank > 1:
            d = rng.randrange(rank)
            kept = [1 if k == d else n for k, n in enumerate(shapes[x])]
            add("ReduceMax", [x], kept, axes=(d,), keepdims=True)
        elif kind == "flip" and rank > 1:
            perm = rng.sample(range(rank), rank)
            add("Transpose", [x], [shapes[x][p] for p in perm], perm=tuple(perm))
    if not nodes:
        pad("x", len(first) - 1)
    return first, nodes


@pytest.mark.parametrize("rows", [1, 128])
def test_random_frames_mean_what_they_meant(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FEW_ROWS", rows)
    seed = draws.seed()
    framed = refused = 0
    for k in range(150):
        rng = Random(f"{seed} {k}")
        shape, nodes = random_nodes(rng)
        g = graph({"x": tuple(shape)}, nodes, [nodes[-1][0]])
        framed += "Frame" in ops(g)
        try:
            lower_written(decompose(g))
        except AutofuseError:
            continue  # no kernel without frames either
        try:
            checked(g, lower=lower_framed)
        except AutofuseError:
            refused += 1
        except Exception as e:
            raise AssertionError(f"{seed} {k}: {shape} {nodes}") from e
    assert framed > 40
    assert refused <= framed // 6
