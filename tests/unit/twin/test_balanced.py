"""Inputs for which comparisons are close."""

from pathlib import Path

import numpy as np
import pytest

from autofuse import api
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import dtype
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.machines.twin.oracle.balanced import balanced_inputs
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.oracle.oracle import evaluate

ROOT = Path(__file__).resolve().parents[3]


def graph(
    nodes: tuple[FusionNode, ...], shapes: dict[str, tuple[int, ...]], d: str = "float32"
) -> FusionGraph:
    shape = tuple(map(const, max(shapes.values(), key=np.prod)))
    tensors = {x: Tensor(x, dtype(d), tuple(map(const, s))) for x, s in shapes.items()}
    for n in nodes:
        kind = dtype("bool") if n.op in ("Less", "Equal", "Greater", "Cast") else dtype(d)
        tensors[n.outputs[0]] = Tensor(n.outputs[0], kind, shape)
    return FusionGraph(
        "g", (), tuple(shapes), nodes, (GraphOutput("o", nodes[-1].outputs[0]),), tensors
    )


SUM = (
    FusionNode("a", "AddN", tuple(f"x{i}" for i in range(40)), ("s",)),
    FusionNode("b", "Less", ("s", Constant(3.0)), ("y",)),
)


@pytest.mark.parametrize("d", ["float32", "float16"])
def test_sum_of_many_is_close_to_what_it_is_compared_with(d: str) -> None:
    g = graph(SUM, {f"x{i}": (200,) for i in range(40)}, d)
    inputs = balanced_inputs(g, {}, 0)
    assert inputs is not None
    total = sum(a.astype(np.float64) for a in inputs.values())
    share = np.mean(np.abs(total - 3.0) < (0.3 if d == "float32" else 1.0))
    assert 0.6 < share < 0.9  # the others are as they were
    result = evaluate(g, inputs, {})["o"]
    assert 0.2 < np.mean(result.value) < 0.8
    before = random_inputs(g, {}, 0)
    assert sum(not np.array_equal(before[n], inputs[n]) for n in inputs) == 1


def test_input_of_one_element_takes_turns() -> None:
    nodes = (
        FusionNode("m", "Mul", ("k", Constant(3)), ("p",)),
        FusionNode("c", "Cast", ("p",), ("y",), {"dtype": "bool"}),
    )
    g = graph(nodes, {"k": (1,)}, "int32")
    found = [balanced_inputs(g, {}, seed) for seed in range(4)]
    assert [int(x["k"][0]) for x in found[:3] if x is not None] == [0, 1, -1]
    assert found[3] is not None
    assert np.array_equal(found[3]["k"], random_inputs(g, {}, 3)["k"])


def test_inputs_of_one_element_take_all_turns_together() -> None:
    """``Select(a > 0, Select(b > 0, y, 1), 1)``: the inner 1 shows where b alone is 0."""
    nodes = tuple(FusionNode(f"c{n}", "Greater", (n, Constant(0.0)), (f"p{n}",)) for n in "abc")
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys("abc", (1,))
    seen: dict[str, set[tuple[float, float]]] = {"ab": set(), "ac": set(), "bc": set()}
    for seed in range(16):
        x = balanced_inputs(graph(nodes, shapes), {}, seed)
        assert x is not None
        for pair in seen:
            u, v = (float(np.sign(x[n][0])) for n in pair)
            seen[pair].add((u, v))
    assert all(len(s) == 9 for s in seen.values())


def test_limit_that_no_number_reaches_is_reached() -> None:
    nodes = (
        FusionNode("s", "Sqrt", ("x",), ("p",)),
        FusionNode("r", "Div", (Constant(1.0), "p"), ("q",)),
        FusionNode("m", "Minimum", ("q", Constant(50.0)), ("y",)),
    )
    g = graph(nodes, {"x": (300,)})
    assert float(evaluate(g, random_inputs(g, {}, 0), {})["o"].value.max()) < 50.0
    x = balanced_inputs(g, {}, 0)
    assert x is not None
    q = 1.0 / np.sqrt(x["x"].astype(np.float64))
    assert np.mean(np.abs(q - 50.0) < 1.0) > 0.1
    assert np.mean(evaluate(g, x, {})["o"].value == 50.0) > 0.05
    # One that random numbers are on both sides of needs no search.
    plain = graph((FusionNode("m", "Maximum", ("x", Constant(0.0)), ("y",)),), {"x": (300,)})
    assert balanced_inputs(plain, {}, 0) is None


def test_domain_is_kept() -> None:
    nodes = (
        FusionNode("c", "Equal", ("x", Constant(0.0)), ("p",)),
        FusionNode("l", "Ln", ("x",), ("y",)),
    )
    g = graph(nodes, {"x": (200,)})
    x = balanced_inputs(g, {}, 0)
    assert x is not None
    assert (x["x"] >= 0).all()


def test_search_has_a_limit() -> None:
    g = graph(SUM, {f"x{i}": (200,) for i in range(40)})
    assert balanced_inputs(g, {}, 0, most=1000) is None
    assert balanced_inputs(g, {}, 0, most=1 << 20) is not None


def test_row_that_is_broadcast_is_moved() -> None:
    nodes = (
        FusionNode("e", "Exp", ("r",), ("p",)),
        FusionNode("a", "Abs", ("x",), ("q",)),
        FusionNode("c", "Greater", ("p", Constant(5.0)), ("y",)),
    )
    g = graph(nodes, {"x": (4, 30), "r": (30,)})
    inputs = balanced_inputs(g, {}, 0)
    assert inputs is not None
    assert np.mean(np.abs(inputs["r"] - np.log(5.0)) < 0.3) > 0.5


def test_graph_without_decisions_has_none() -> None:
    g = graph((FusionNode("a", "Exp", ("x",), ("y",)),), {"x": (5,)})
    assert balanced_inputs(g, {}, 0) is None


def test_strided_input_stays_in_its_buffer() -> None:
    g = graph((FusionNode("c", "Less", ("x", Constant(0.3)), ("y",)),), {"x": (4, 6)})
    strided = Tensor("x", dtype("float32"), (const(4), const(6)), (const(8), const(1)))
    g = FusionGraph("g", (), g.inputs, g.nodes, g.outputs, {**g.tensors, "x": strided})
    inputs = balanced_inputs(g, {}, 0)
    assert inputs is not None
    assert inputs["x"].strides == (32, 4)


def test_numbers_are_those_of_the_seed() -> None:
    g = api.read(ROOT / "examples/where_mask.json")
    symbols = {"batch": 2, "seq": 5}
    a, b, c = (balanced_inputs(g, symbols, s) for s in (1, 1, 2))
    assert a is not None and b is not None and c is not None  # noqa: PT018
    assert all(np.array_equal(a[n], b[n]) for n in a)
    assert not np.array_equal(a["scores"], c["scores"])
    close = np.abs(a["scores"].astype(np.float64) * 0.125 + 10000) < 10
    assert close.any()
