"""Graphs as graph files: what is written is read as the same graph."""

import json
import random
from pathlib import Path

import draws
import graph_strategies
import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends.graph.writer import graph_data
from autofuse.implgraph.expr.expression import sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.fusion import Constant, FusionGraph
from autofuse.implgraph.ir.serialise import to_json

HOSTILE = ("tl", "lambda", "x):", "../up", "a|b", "<script>", "名前", 'q"', "a b", "z0t_size")


def again(graph: FusionGraph) -> FusionGraph:
    """The graph of the text that is written."""
    return api.read(json.dumps(graph_data(graph)))


def without_places(graph: FusionGraph) -> FusionGraph:
    """The graph without JSON pointers, which tell where it was read."""
    tensors = {n: replace(t, origin="") for n, t in graph.tensors.items()}
    nodes = tuple(replace(n, origin="") for n in graph.nodes)
    return replace(graph, tensors=tensors, nodes=nodes)


def test_graphs_of_the_examples_stay(repo: Path) -> None:
    files = [
        p for p in (repo / "examples").rglob("*.json") if '"autofuse.graph/1"' in p.read_text()
    ]
    assert len(files) > 10
    for path in files:
        graph = api.read(path)
        assert without_places(again(graph)) == without_places(graph), path


def test_random_graphs_stay() -> None:
    seed = draws.seed()
    rng = random.Random(seed)
    for k in range(40):
        # Of inputs with strides, none is overwritten.
        options = graph_strategies.Options(moves=True, inout=k % 2 == 0, strides=k % 2 == 1)
        graph = graph_strategies.random_graph(rng, options=options)
        found = again(graph)
        # Constants may be NaN, which nothing is equal to.
        assert json.dumps(to_json(again(found))) == json.dumps(to_json(found)), seed
        assert [n.op for n in found.nodes] == [n.op for n in graph.nodes], seed
        assert {o.name for o in found.outputs} == {o.name for o in graph.outputs}, seed
        for name, t in graph.tensors.items():
            if name in found.tensors:
                assert (found.tensors[name].dtype, found.tensors[name].shape) == (
                    t.dtype,
                    t.shape,
                ), seed


def test_any_name_stays() -> None:
    symbols = ["b", "float", "block_dim", "z0t_size"]
    data = {
        "schema": "autofuse.graph/1",
        "name": "名前",
        "symbols": {s: {"max": 1 << 10} for s in symbols},
        "inputs": [{"name": n, "dtype": "float32", "shape": symbols} for n in HOSTILE],
        "nodes": [
            {"name": f"{n}'", "op": "Add", "inputs": [n, HOSTILE[0]], "outputs": [f"{n}''"]}
            for n in HOSTILE
        ],
        "outputs": [{"tensor": f"{n}''", "name": f"{n} out"} for n in HOSTILE],
    }
    graph = api.read(data)
    assert again(graph) == graph
    written = graph_data(graph)
    assert [i["name"] for i in written["inputs"]] == list(HOSTILE)
    assert list(written["symbols"]) == symbols
    assert written["inputs"][0]["shape"] == symbols


def test_layouts_scalars_places_and_constants_stay() -> None:
    data = {
        "schema": "autofuse.graph/1",
        "name": "all",
        "symbols": {"n": {"min": 0, "max": 100, "hint": 7}},
        "inputs": [
            {
                "name": "x",
                "dtype": "float16",
                "shape": ["n", 8],
                "strides": [16, 1],
                "offset": "n*2",
            },
            {"name": "y", "dtype": "float16", "shape": ["n", 8]},
            {"name": "s", "dtype": "float16", "scalar": True},
        ],
        "nodes": [
            {"name": "a", "op": "Maximum", "inputs": ["x", {"const": "-inf"}], "outputs": ["t"]},
            {
                "name": "b",
                "op": "Add",
                "inputs": ["t", {"const": 1, "dtype": "float16"}],
                "outputs": ["u"],
            },
            {"name": "c", "op": "Mul", "inputs": ["u", "s"], "outputs": ["v"]},
            {
                "name": "d",
                "op": "Pad",
                "inputs": ["v"],
                "outputs": ["w"],
                "attrs": {"low": [0, 1], "high": [0, "n"], "value": "-inf"},
            },
        ],
        "outputs": [{"tensor": "v", "name": "out", "inout": "y"}, "w"],
    }
    graph = api.read(data)
    assert again(graph) == graph
    assert graph.nodes[3].attrs["value"] == float("-inf")
    assert graph_data(graph)["nodes"][3]["attrs"]["value"] == "-inf"


def test_a_float_attribute_takes_no_other_word() -> None:
    data = {
        "schema": "autofuse.graph/1",
        "name": "leaky",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [3]}],
        "nodes": [
            {
                "name": "leaky",
                "op": "LeakyRelu",
                "inputs": ["x"],
                "outputs": ["y"],
                "attrs": {"negative_slope": "infinite"},
            }
        ],
        "outputs": ["y"],
    }
    with pytest.raises(AutofuseError, match="AF1205"):
        api.read(data)


def test_a_constant_of_sizes_has_no_file() -> None:
    graph = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "g",
            "symbols": {"n": {}},
            "inputs": [{"name": "x", "dtype": "float32", "shape": ["n"]}],
            "nodes": [
                {"name": "a", "op": "Add", "inputs": ["x", {"const": 1.0}], "outputs": ["y"]}
            ],
            "outputs": ["y"],
        }
    )
    constant = Constant(0.0, BY_NAME["float32"], sym("n"))
    node = replace(graph.nodes[0], inputs=("x", constant))
    with pytest.raises(AutofuseError, match="AF1104"):
        graph_data(replace(graph, nodes=(node,)))
