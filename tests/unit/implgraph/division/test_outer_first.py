"""Reductions over dimensions on both sides of what is kept: the outer ones first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import draws
import numpy as np
import pytest
from lowering_checks import graph

from autofuse import api
from autofuse.implgraph.division.outer_first import outer_first
from autofuse.implgraph.ir.fusion import FusionGraph, Symbol
from autofuse.implgraph.lowering.lowering import lower_all, lower_written
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")


def reduced(shape: Any, axes: Any, op: str = "ReduceSum", keepdims: bool = False) -> FusionGraph:
    attrs = {"axes": tuple(axes), "keepdims": keepdims}
    made = graph({"x": tuple(shape)}, [("y", op, ["x"], attrs)], ["y"], dtype="float32")
    names = sorted({s for s in shape if isinstance(s, str)})
    return replace(made, symbols=tuple(Symbol(s, 0, 4096) for s in names))


def steps(g: FusionGraph) -> list[tuple[str, list[str]]]:
    """Op and shape of every node; each of them is what inference makes of its operand."""
    found = outer_first(g, CHIP)
    for n in found.nodes:
        made = found.tensors[n.outputs[0]]
        operands = [found.tensors[str(x)] for x in n.inputs]
        assert infer_node(lookup(n.op), operands, dict(n.attrs)) == (made.dtype, made.shape)
    return [(n.op, [str(s) for s in found.tensors[n.outputs[0]].shape]) for n in found.nodes]


@pytest.mark.parametrize(
    ("shape", "axes", "dense", "kept"),
    [
        ((300, 576, 14, 14), (0, 2, 3), ["576", "196"], ["576"]),
        ((9, 5, 11, 6, 7), (0, 2, 4), ["5", "6", "7"], ["5", "6"]),
        ((2, 4, 3, 7), (0, 1, 3), ["3", "7"], ["3"]),
        # A dimension of one element makes no difference, reduced or not.
        ((16, 1, 5, 7, 1), (0, 1, 3), ["5", "7"], ["5"]),
        ((16, 5, 1, 7, 1), (0, 3, 4), ["5", "7"], ["5"]),
        # Where a size is not known it may be one for which this pays.
        (("n", 5, 7), (0, 2), ["5", "7"], ["5"]),
        ((16, "n", 7), (0, 2), ["n", "7"], ["n"]),
        ((16, 5, "n"), (0, 2), ["5", "n"], ["5"]),
        ((3, "n", 5, "m", 7), (0, 1, 3, 4), ["5", "(7 * m)"], ["5"]),
    ],
)
def test_the_first_step_is_dense(shape, axes, dense, kept):
    flat, first, second, last = steps(reduced(shape, axes))
    assert flat[0] == "Reshape"
    assert first == ("ReduceSum", dense)
    assert second == ("ReduceSum", kept)
    assert last[0] == "Reshape"


def test_dimensions_that_are_kept_have_size_one():
    assert steps(reduced((64, 3, 7), (0, 2), keepdims=True))[-1] == ("Reshape", ["1", "3", "1"])


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((64, 3, 128), (0, 2)),  # rows start at cache lines
        ((7, 3, 49), (0, 2)),  # what is left is an eighth of it or more
        ((64, 3, 49), (2,)),
        ((64, 3, 49), (0,)),
        ((64, 49), (0, 1)),
        ((64, 3, 1), (0, 2)),
        ((0, 3, 49), (0, 2)),
        ((64, 0, 49), (0, 2)),
        (("n", 3, 128), (0, 2)),
        ((7, "n", 49), (0, 2)),
        ((7, 3, "n"), (0, 2)),
        (("n", 0, 49), (0, 2)),
    ],
)
def test_others_stay(shape, axes):
    g = reduced(shape, axes)
    assert outer_first(g, CHIP) is g


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"])
@pytest.mark.parametrize("keepdims", [False, True])
def test_the_numbers_are_the_same(op, keepdims):
    # Numbers of which sums and products are exact.
    x = draws.rng().choice([-1.0, 1.0, 1.0, 2.0], (9, 4, 3, 5)).astype(np.float32)
    g = reduced(x.shape, (0, 2, 3), op, keepdims)
    two = outer_first(g, CHIP)
    assert two is not g
    (result,) = interpret(lower_written(two), [x.ravel()])
    function = getattr(np, {"Sum": "sum", "Max": "max", "Min": "min", "Prod": "prod"}[op[6:]])
    assert np.array_equal(result, function(x.astype(np.float64), axis=(0, 2, 3)))


def test_names_that_are_taken_stay():
    attrs = {"axes": (0, 2), "keepdims": False}
    nodes = [("y", "ReduceSum", ["x"], attrs), ("y_outer", "Abs", ["x"], {})]
    g = graph({"x": (64, 3, 7)}, nodes, ["y", "y_outer"], dtype="float32")
    found = outer_first(g, CHIP)
    assert len({n.name for n in found.nodes}) == len(found.nodes) == 5
    assert [str(s) for s in found.tensors["y_outer"].shape] == ["64", "3", "7"]


def test_it_is_a_form_to_choose_from_which_is_taken_where_rows_are_not_whole_lines():
    forms = lower_all(reduced((300, 576, 14, 14), (0, 2, 3)), CHIP)
    whole = lower_all(reduced((300, 576, 128), (0, 2)), CHIP)
    assert len(forms) > len(whole)
    built = api.build(reduced((300, 576, 14, 14), (0, 2, 3)), target="ascend910b1")
    assert len(built.schedule[-1].groups) == 2
