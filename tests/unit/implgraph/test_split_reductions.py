"""Large reductions in two steps."""

from __future__ import annotations

import pytest

from autofuse.implgraph.dtypes import dtype
from autofuse.implgraph.expr import const, sym
from autofuse.implgraph.fusion import FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.infer import infer_node
from autofuse.implgraph.ops import lookup
from autofuse.implgraph.split_reductions import split_reductions


def graph(shape, axes, keepdims=False) -> FusionGraph:
    sizes = tuple(const(s) if isinstance(s, int) else sym(s) for s in shape)
    x = Tensor("x", dtype("float32"), sizes)
    attrs = {"axes": tuple(axes), "keepdims": keepdims}
    y = Tensor("y", *infer_node(lookup("ReduceSum"), [x], attrs))
    node = FusionNode("sum", "ReduceSum", ("x",), ("y",), attrs)
    return FusionGraph("g", (), ("x",), (node,), (GraphOutput("y", "y"),), {"x": x, "y": y})


def steps(g: FusionGraph) -> list[tuple[str, list[int]]]:
    found = split_reductions(g)
    for n in found.nodes:
        operands = [found.tensors[x] for x in n.inputs if isinstance(x, str)]
        made = found.tensors[n.outputs[0]]
        assert infer_node(lookup(n.op), operands, dict(n.attrs)) == (made.dtype, made.shape)
    return [(n.op, [s.value for s in found.tensors[n.outputs[0]].shape]) for n in found.nodes]


@pytest.mark.parametrize(
    ("shape", "axes", "partial"),
    [
        ((1024, 1024), [0, 1], [1024]),
        ((1 << 20,), [0], [128]),
        ((7, 200000), [1], [7, 200]),
        ((200000, 7), [0], [200, 7]),
        ((64, 10, 1000), [0, 2], [64, 10]),
    ],
)
def test_little_is_kept_of_much(shape, axes, partial):
    found = steps(graph(shape, axes))
    assert [op for op, _ in found] == ["Reshape", "ReduceSum", "ReduceSum", "Reshape"]
    assert found[1][1] == partial


def test_dimensions_that_are_kept_have_size_one():
    assert steps(graph((1024, 1024), [0, 1], keepdims=True))[-1] == ("Reshape", [1, 1])


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((4096, 1024), [1]),
        ((1024, 4096), [0]),
        ((100, 100), [0, 1]),
        ((1048573,), [0]),
        (("n", 1024), [0, 1]),
    ],
)
def test_others_stay(shape, axes):
    g = graph(shape, axes)
    assert split_reductions(g) is g
