"""Sums of columns in parts of rows, beside what is computed for each row: one group, which loads every input once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import draws
import numpy as np
import pytest
from gradient_graphs import bias_gradient, extremes, layer_norm_gradient, softmax_gradient
from row_graphs import graph, node

from autofuse import api
from autofuse.implgraph.check.verify import verify
from autofuse.implgraph.division.row_parts import in_row_parts
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph
from autofuse.implgraph.ir.group_order import groups
from autofuse.implgraph.lowering.lowering import lower_written
from autofuse.implgraph.ops.rows.reductions import PART
from autofuse.implgraph.rewrites.decompose import decompose
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")


def parted(document: dict[str, Any]) -> tuple[FusionGraph, FusionGraph]:
    """The graph without composite ops, and the same with sums in parts."""
    written = decompose(api.read(document))
    return written, in_row_parts(written, CHIP)


def lengths(g: FusionGraph) -> dict[str, tuple[Any, list[str]]]:
    """Rows per part and shape of every reduction in parts."""
    return {
        n.name: (n.attrs[PART], [str(s) for s in g.tensors[n.outputs[0]].shape])
        for n in g.nodes
        if PART in n.attrs
    }


def test_each_core_sums_up_a_part_of_the_rows():
    _, found = parted(softmax_gradient(8191, 128))
    assert lengths(found) == {"n4_parts": (171, ["48", "128"])}
    result = found.tensors["db"]
    assert [str(s) for s in result.shape] == ["128"]


def test_an_unknown_number_of_rows_is_cut_into_parts_of_equal_length():
    _, found = parted(layer_norm_gradient("n", 768))
    assert set(map(str, lengths(found).values())) == {"(32, ['Ceiling((n / (32)))', '768'])"}
    assert len(lengths(found)) == 2


def test_outer_dimensions_are_one():
    shape = [4, 500, 768]
    nodes = [
        node("y", "Exp", "x"),
        node("s", "ReduceSum", "y", axes=[0, 1], keepdims=True),
    ]
    _, found = parted(graph(shape, "float32", nodes, ("y", "s")))
    assert lengths(found) == {"n1_parts": (42, ["48", "768"])}


NOT = {
    "nothing else needs the rows": graph(
        [8192, 768], "float32", [node("s", "ReduceSum", "x", axes=[0])], ("s",)
    ),
    "all else needs the sums": graph(
        [8192, 768],
        "float32",
        [node("s", "ReduceSum", "x", axes=[0], keepdims=True), node("y", "Sub", "x", "s")],
        ("y",),
    ),
    "few rows": softmax_gradient(90, 4096),
    "few bytes": softmax_gradient(128, 64),
    "no rows": softmax_gradient(0, 64),
    "no columns": softmax_gradient(8192, 0),
    "sums of rows": graph(
        [8192, 768],
        "float32",
        [node("y", "Exp", "x"), node("s", "ReduceSum", "y", axes=[1])],
        ("y", "s"),
    ),
    "rows are kept on both sides": graph(
        [64, 128, 768],
        "float32",
        [node("y", "Exp", "x"), node("s", "ReduceSum", "y", axes=[1])],
        ("y", "s"),
    ),
}


@pytest.mark.parametrize("document", NOT.values(), ids=NOT)
def test_others_stay(document):
    written, found = parted(document)
    assert found is written


def lowered(document: dict[str, Any]) -> HintGraph:
    hint = canonicalise(lower_written(parted(document)[1]))
    assert not list(verify(hint))
    return hint


@pytest.mark.parametrize("make", [layer_norm_gradient, softmax_gradient, bias_gradient, extremes])
@pytest.mark.parametrize("rows", [8191, "n"])
def test_one_group_loads_every_input_once(make, rows):
    hint = lowered(make(rows, 768, "float32"))
    first, *others = groups(hint)
    data = {n.name for n in hint.ops("Data")}
    loads = Counter(n.inputs[0] for n in first if n.op == "Load")
    assert loads == dict.fromkeys(data, 1)
    assert not any(n.inputs[0] in data for g in others for n in g if n.op == "Load")
    assert sum(PART in n.attrs for n in first) == len(others)


@pytest.mark.parametrize("make", [layer_norm_gradient, softmax_gradient, bias_gradient, extremes])
@pytest.mark.parametrize("rows", [0, 1, 31, 32, 33, 97])
def test_the_numbers_are_the_same(make, rows):
    document = make("n", 640, "float32")
    written, found = parted(document)
    assert found is not written
    random = draws.rng()
    count = {"x": rows * 640, "dy": rows * 640, "w": 640, "mean": rows, "rstd": rows}
    xs = [random.standard_normal(count[i]).astype(np.float32) for i in found.inputs]
    one, two = (interpret(lower_written(g), xs, {"n": rows}) for g in (written, found))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)


def test_names_that_are_taken_stay():
    document = softmax_gradient(8192, 128)
    document["nodes"].append({"name": "n4_parts", **node("n4_whole", "Abs", "x")})
    document["outputs"] = [*document["outputs"], "n4_whole"]
    _, found = parted(document)
    assert len({n.name for n in found.nodes}) == len(found.nodes)
    assert [str(s) for s in found.tensors["n4_whole"].shape] == ["8192", "128"]
