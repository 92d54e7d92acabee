"""Whole models, read node by node and partitioned; nothing is compiled here."""

import hashlib
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extras import required

pytestmark = required("onnx")

import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_models import model, node, value

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.onnx import models
from autofuse.frontends.onnx import read_onnx
from autofuse.frontends.onnx.pieces import ModelPieces, read_pieces
from autofuse.frontends.onnx.regions import Regions


def kinds(pieces: ModelPieces) -> dict[str, str]:
    return {p.name: p.kind for p in pieces.pieces}


def regions(pieces: ModelPieces) -> list[list[str]]:
    eligible = [p.index for p in pieces.pieces if p.kind == "kernel"]
    found = Regions(pieces).grown(eligible)
    return [[pieces.pieces[i].name for i in r] for r in found]


def ops_of(m: Any) -> dict[str, list[list[str]]]:
    """What a build makes: ops of regions with a kernel, of views, and of fallbacks."""
    found = models.build(m).manifest
    out: dict[str, list[list[str]]] = {"kernels": [], "views": []}
    for r in found["regions"]:
        out["kernels" if r["kernel"] else "views"].append([n["op"] for n in r["nodes"]])
    out["fallbacks"] = [[f["op"]] for f in found["fallbacks"]]
    return out


def autofuse_read(m: Any) -> Any:
    return read_onnx(m.SerializeToString())


X = [value("x", [4, 4])]


# what becomes of a node -----------------------------------------------------------------------


def test_every_kind_of_node() -> None:
    m = model(
        [
            node("MatMul", ["x", "w"], ["a"], name="fallback"),
            node("Relu", ["a"], ["b"], name="kernel"),
            node("Identity", ["b"], ["c"], name="renamed"),
            node("Shape", ["c"], ["s"], name="known"),
            node("Exp", ["c"], ["d"], name="unused"),
            node("MatMul", ["d", "w"], ["e"], name="unused too"),
            node("Reshape", ["c", "s"], ["y"], name="same shape"),
        ],
        X,
        ["y"],
        constants={"w": np.eye(4, dtype=np.float32) * 3},
    )
    assert kinds(read_pieces(m)) == {
        "fallback": "fallback",
        "kernel": "kernel",
        "renamed": "renamed",
        "known": "known",
        "unused": "unused",
        "unused too": "unused",
        "same shape": "renamed",
    }


def test_a_fallback_says_why() -> None:
    nodes = [
        node("NonZero", ["x"], ["a"]),
        node("Cast", ["x"], ["b"], to=TensorProto.DOUBLE),
        node("Exp", ["b"], ["c"]),
        node("Reshape", ["x", "s"], ["d"]),
        node("Neg", ["d"], ["e"]),
        node("Strange", ["x"], ["f"], domain="org.example"),
        node("Relu", ["x"], ["y"]),
    ]
    given = [*X, value("s", [2], TensorProto.INT64)]
    m = model(nodes, given, ["a", "c", "e", "f", "y"], domains=["org.example"])
    found = {p.op: (p.code, p.reason) for p in read_pieces(m).pieces}
    assert found["NonZero"] == ("AF1201", "the shape of the result depends on the data")
    assert found["Exp"][0] == "AF1203"
    assert "float64" in found["Exp"][1]
    assert found["Reshape"][0] == "AF1205"
    assert "must be known when the kernel is built" in found["Reshape"][1]
    assert found["Strange"] == ("AF1201", "the domain 'org.example' is not known")
    assert found["Relu"] == ("", "")


def test_sizes_that_only_a_result_tells_are_symbols() -> None:
    nodes = [
        node("NonZero", ["x"], ["i"]),
        node("Cast", ["i"], ["c"], to=TensorProto.FLOAT),
        node("Exp", ["c"], ["y"]),
    ]
    pieces = read_pieces(model(nodes, X, ["y"]))
    assert kinds(pieces) == {"i": "fallback", "c": "kernel", "y": "kernel"}
    assert [str(e) for e in pieces.values["y"].shape] == ["2", *pieces.symbols]
    assert list(pieces.dims.values()) == ["axis 1 of i"]


def test_sizes_pass_through_fallbacks_as_expressions() -> None:
    nodes = [
        node("Concat", ["x", "x"], ["xx"], axis=0),
        node("MatMul", ["xx", "w"], ["a"]),
        node("Add", ["a", "xx"], ["y"]),
    ]
    m = model(nodes, [value("x", ["n", 4])], ["y"], constants={"w": np.ones((4, 4), np.float32)})
    pieces = read_pieces(m)
    assert [str(e) for e in pieces.values["y"].shape] == ["(2 * n)", "4"]
    assert list(pieces.symbols) == ["n"]
    assert pieces.symbols["n"].min == 0


def test_a_shape_made_of_sizes_is_that_of_a_fallback_too() -> None:
    """Heads of an attention: the product is no kernel's, and how it is reshaped follows from named dimensions."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "first"], ["b"]),
        node("Gather", ["s", "second"], ["t"]),
        node("Concat", ["b", "t", "heads"], ["to"], axis=0),
        node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE),
        node("Reshape", ["d", "to"], ["r"]),
        node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
        node("Slice", ["r", "from", "until", "axes"], ["cut"]),
        node("Cast", ["cut"], ["g"], to=TensorProto.FLOAT),
    ]
    held = {"first": np.array([0]), "second": np.array([1]), "heads": np.array([2, 4])}
    held |= {"from": np.array([0]), "axes": np.array([1])}
    given = [value("x", ["batch", "seq", 8]), value("until", [1], TensorProto.INT64)]
    pieces = read_pieces(model(nodes, given, ["f", "g"], constants=held))
    assert kinds(pieces)["r"] == "fallback"
    assert [str(e) for e in pieces.values["f"].shape] == ["batch", "seq", "2", "4"]
    shape = [str(e) for e in pieces.values["g"].shape]
    assert [shape[0], *shape[2:]] == ["batch", "2", "4"]
    assert pieces.dims[shape[1]] == "axis 1 of cut"


def test_as_many_rows_of_a_table_as_a_sequence_is_long() -> None:
    """Positions: the table limits the symbol, since the rows are added to what has as many."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "second"], ["t"]),
        node("Slice", ["table", "from", "t", "axes"], ["p"]),
        node("Add", ["x", "p"], ["y"]),
    ]
    held = {"second": np.array([1]), "from": np.array([0]), "axes": np.array([1])}
    held["table"] = np.ones((1, 64, 8), np.float32)
    m = model(nodes, [value("x", ["batch", "seq", 8])], ["y"], constants=held)
    pieces = read_pieces(m)
    assert kinds(pieces)["y"] == kinds(pieces)["p"] == "kernel"
    assert [str(e) for e in pieces.values["p"].shape] == ["1", "seq", "8"]
    assert (pieces.symbols["seq"].max, pieces.symbols["batch"].max) == (64, 1 << 20)


def test_branches_tell_the_shape_of_their_result() -> None:
    def branch(op: str) -> Any:
        out = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
        return helper.make_graph([node(op, ["a"], ["r"])], op, [], [out])

    nodes = [
        node("Exp", ["x"], ["a"]),
        node("If", ["c"], ["z"], then_branch=branch("Neg"), else_branch=branch("Abs")),
        node("Relu", ["z"], ["y"]),
    ]
    given = [value("x", ["n", 5]), value("c", [], TensorProto.BOOL)]
    pieces = read_pieces(model(nodes, given, ["y"]))
    assert kinds(pieces) == {"a": "kernel", "z": "fallback", "y": "kernel"}
    assert [str(e) for e in pieces.values["y"].shape] == ["n", "5"]


@pytest.mark.parametrize(
    ("op", "attrs", "kept"),
    [
        ("Conv", {"pads": [1, 1, 1, 1]}, "hw"),
        ("Conv", {"pads": [2, 1, 2, 1], "dilations": [2, 1]}, "hw"),
        ("Conv", {"pads": [0, 1, 2, 1]}, "hw"),
        ("Conv", {"auto_pad": "SAME_UPPER"}, "hw"),
        ("Conv", {"pads": [1, 1, 1, 1], "strides": [2, 1]}, "w"),
        ("Conv", {"pads": [1, 0, 1, 0]}, "h"),
        ("Conv", {}, ""),
        ("Conv", {"auto_pad": "VALID"}, ""),
        ("MaxPool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, "hw"),
        ("AveragePool", {"kernel_shape": [2, 2]}, ""),
    ],
)
def test_a_window_keeps_the_size_of_an_image(op: str, attrs: dict[str, Any], kept: str) -> None:
    """What it says is what onnx.reference gives, and a size that it does not keep is a symbol of its own."""
    nodes = [node(op, ["x", "w"][: 2 if op == "Conv" else 1], ["c"], **attrs)]
    nodes.append(node("Relu", ["c"], ["y"]))
    held = {"w": np.ones((3, 3, 3, 3), np.float32)}
    m = model(nodes, [value("x", ["n", 3, "h", "w"])], ["y"], constants=held)
    pieces = read_pieces(m)
    shape = [str(e) for e in pieces.values["y"].shape]
    assert shape[0] == "n"
    assert "".join(name for name, s in zip("hw", shape[2:], strict=True) if s == name) == kept
    x = np.ones((2, 3, 7, 9), np.float32)
    want = ReferenceEvaluator(m).run(None, {"x": x})[0].shape
    assert want[:2] == (2, 3)
    for name, n, have in zip("hw", want[2:], x.shape[2:], strict=True):
        assert (n == have) == (name in kept)


def test_a_resized_image_is_a_multiple_of_what_it_was() -> None:
    nodes = [
        node("Resize", ["x", "", "scales"], ["r"], mode="nearest"),
        node("Concat", ["r", "big"], ["c"], axis=1),
        node("Relu", ["c"], ["y"]),
    ]
    held = {"scales": np.array([1, 1, 2, 1.5], np.float32)}
    given = [value("x", ["n", 2, "h", 4]), value("big", ["n", 3, "h2", 6])]
    pieces = read_pieces(model(nodes, given, ["y"], constants=held))
    assert [str(e) for e in pieces.values["r"].shape] == ["n", "2", "(2 * h)", "6"]


def test_scales_tell_the_shape_of_a_resized_image() -> None:
    nodes = [
        node("Resize", ["x", "", "scales"], ["r"], mode="nearest"),
        node("Relu", ["r"], ["y"]),
    ]
    held = {"scales": np.array([1, 1, 2, 2], np.float32)}
    pieces = read_pieces(model(nodes, [value("x", [1, 2, 3, 4])], ["y"], constants=held))
    assert [str(e) for e in pieces.values["y"].shape] == ["1", "2", "6", "8"]
    assert not pieces.symbols


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (node("Add", ["x", "wide"], ["a"]), "AF1204"),
        (node("Add", ["x", "whole"], ["a"]), "AF1203"),
        (node("Softmax", ["x"], ["a"], axis=7), "AF1205"),
        (node("MatMul", ["x", "wide"], ["a"]), "AF1201"),
    ],
    ids=lambda v: v if isinstance(v, str) else v.op_type,
)
def test_a_node_that_onnx_refuses_is_a_fallback_with_the_reason(bad: Any, code: str) -> None:
    """What it is good for shows when it runs; that it cannot be inferred is no failure of autofuse."""
    given = [*X, value("wide", [5, 7]), value("whole", [4, 4], TensorProto.INT32)]
    m = model([bad, node("Relu", ["x"], ["y"])], given, ["a", "y"])
    found = {p.op: (p.kind, p.code) for p in read_pieces(m).pieces}
    assert found == {bad.op_type: ("fallback", code), "Relu": ("kernel", "")}


def test_a_symbol_that_would_make_a_tensor_too_large_is_smaller() -> None:
    nodes = [node("Expand", ["x", "s"], ["a"]), node("MatMul", ["a", "x"], ["y"])]
    shape = [1 << 14, 1 << 14, 1, 1]
    m = model(nodes, [value("x", ["n", 1])], ["y"], constants={"s": np.array(shape)})
    pieces = read_pieces(m)
    assert kinds(pieces)["a"] == "kernel"
    assert 1 << 10 < pieces.symbols["n"].max < 1 << 20


def test_tensors_and_nodes_may_have_the_same_names() -> None:
    """A node may be called like the result of another one; they are different things."""
    nodes = [
        node("Relu", ["x"], ["b"], name="a"),
        node("MatMul", ["x", "x"], ["a"], name="b"),
        node("Add", ["a", "b"], ["y"], name="x"),
    ]
    pieces = read_pieces(model(nodes, X, ["y"]))
    assert len({pieces.keys[n] for n in ("x", "a", "b", "y")}) == 4
    assert regions(pieces) == [["a", "x"]]


# functions and subgraphs ----------------------------------------------------------------------


def test_functions_are_written_out() -> None:
    body = [node("MatMul", ["p", "p"], ["q"]), node("Relu", ["q"], ["r"])]
    opsets = [helper.make_opsetid("", 18)]
    f = helper.make_function("local", "Twice", ["p"], ["r"], body, opsets)
    call = node("Twice", ["x"], ["a"], domain="local")
    m = model([call, node("Exp", ["a"], ["y"])], X, ["y"], functions=[f], domains=["local"])
    assert ops_of(m) == {"kernels": [["Relu", "Exp"]], "views": [], "fallbacks": [["MatMul"]]}


def test_a_function_that_calls_itself_is_refused() -> None:
    body = [node("Again", ["p"], ["r"], domain="local")]
    f = helper.make_function(
        "local", "Again", ["p"], ["r"], body, [helper.make_opsetid("local", 1)]
    )
    call = node("Again", ["x"], ["y"], domain="local")
    with pytest.raises(AutofuseError, match="calls itself"):
        read_pieces(model([call], X, ["y"], functions=[f], domains=["local"]))


@pytest.mark.parametrize("inside", [False, True])
def test_functions_that_make_too_many_nodes_are_refused(inside: bool) -> None:
    """Also where they are called in the branches of an If."""
    functions = []
    for k in range(12):
        inner = "Relu" if k == 0 else f"F{k - 1}"
        domain = "" if k == 0 else "local"
        names = [f"v{i}" for i in range(9)]
        body = [node(inner, [a], [b], domain=domain) for a, b in itertools.pairwise(names)]
        if inside:
            out = [helper.make_tensor_value_info("v8", TensorProto.FLOAT, None)]
            branch = helper.make_graph(body, f"branch{k}", [], out)
            yes = helper.make_node(
                "Constant",
                [],
                ["yes"],
                value=helper.make_tensor("t", TensorProto.BOOL, [], [1]),
            )
            choice = helper.make_node("If", ["yes"], ["v8"], then_branch=branch, else_branch=branch)
            body = [yes, choice]
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
        functions.append(helper.make_function("local", f"F{k}", ["v0"], ["v8"], body, opsets))
    call = node("F11", ["x"], ["y"], domain="local")
    with pytest.raises(AutofuseError, match="AF1003"):
        read_pieces(model([call], X, ["y"], functions=functions, domains=["local"]))


def branches(*names: str) -> Any:
    """An If whose branches read these tensors, the first one and the last one."""

    def graph(name: str) -> Any:
        out = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
        return helper.make_graph([node("Abs", [name], ["r"])], name, [], [out])

    return node("If", ["c"], ["z"], then_branch=graph(names[0]), else_branch=graph(names[-1]))


def test_what_a_subgraph_reads_is_needed_before_it() -> None:
    nodes = [node("Exp", ["x"], ["a"]), branches("a", "x"), node("Neg", ["z"], ["y"])]
    pieces = read_pieces(model(nodes, [*X, value("c", [], TensorProto.BOOL)], ["y"]))
    assert sorted(pieces.pieces[1].inputs) == ["a", "c", "x"]
    assert pieces.pieces[1].needs == (0,)
    assert [p.kind for p in pieces.pieces] == ["kernel", "fallback", "kernel"]


def test_data_in_another_file_are_refused_inside_a_subgraph_too(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(16))
    t = helper.make_tensor("k", TensorProto.FLOAT, [4], [0.0] * 4)
    t.ClearField("float_data")
    t.data_location = TensorProto.EXTERNAL
    entry = t.external_data.add()
    entry.key, entry.value = "location", str(secret)
    out = helper.make_tensor_value_info("k", TensorProto.FLOAT, [4])
    inner = helper.make_graph([], "inner", [], [out], [t])
    nodes = [node("If", ["c"], ["a"], then_branch=inner, else_branch=inner)]
    nodes.append(node("Relu", ["x"], ["y"]))
    m = model(nodes, [*X, value("c", [], TensorProto.BOOL)], ["a", "y"])
    with pytest.raises(AutofuseError, match="are in another file"):
        models.build(m)


# regions --------------------------------------------------------------------------------------


def test_no_region_waits_for_itself() -> None:
    """Exp and Add cannot be one region, because what is between them is none of it."""
    nodes = [
        node("Exp", ["x"], ["a"]),
        node("MatMul", ["a", "a"], ["b"]),
        node("Add", ["a", "b"], ["c"]),
        node("Neg", ["c"], ["y"]),
    ]
    assert regions(read_pieces(model(nodes, X, ["y"]))) == [["a"], ["c", "y"]]


def test_views_at_the_ends_are_no_part_of_a_kernel() -> None:
    nodes = [
        node("Reshape", ["x", "flat"], ["a"]),
        node("Exp", ["a"], ["b"]),
        node("Reshape", ["b", "back"], ["c"]),
        node("MatMul", ["c", "c"], ["y"]),
    ]
    held = {"flat": np.array([16]), "back": np.array([4, 4])}
    found = ops_of(model(nodes, X, ["y"], constants=held))
    assert found == {
        "kernels": [["Exp"]],
        "views": [["Reshape"], ["Reshape"]],
        "fallbacks": [["MatMul"]],
    }


def test_equal_regions_are_one_kernel() -> None:
    nodes = []
    for k, x in enumerate(["x", "m0", "m1"]):
        nodes += [
            node("Mul", [x, f"s{k}"], [f"a{k}"]),
            node("Tanh", [f"a{k}"], [f"b{k}"]),
            node("MatMul", [f"b{k}", "x"], [f"m{k}"]),
        ]
    held = {f"s{k}": np.arange(4, dtype=np.float32) ** 2 + k for k in range(3)}
    built = models.build(model(nodes, X, ["m2"], constants=held))
    assert len(built.regions) == 3
    (name,) = built.kernels
    assert name.startswith("fused_mul_tanh_")
    assert [set(r.inputs.values()) & held.keys() for r in built.regions] == [{"s0"}, {"s1"}, {"s2"}]


def test_a_region_that_a_kernel_cannot_be_is_cut() -> None:
    count = 24
    nodes = [node("Exp", ["m"], ["e0"]), node("MatMul", ["x", "x"], ["m"])][::-1]
    nodes += [node("Sin", [f"e{k}"], [f"e{k + 1}"]) for k in range(count)]
    total = f"e{count}"
    for k in reversed(range(count)):
        nodes.append(node("Max", [total, f"e{k}"], [f"s{k}"]))
        total = f"s{k}"
    m = model(nodes, [value("x", [512, 512])], [total])
    roomy, tight = models.build(m), models.build(m, ub_bytes=4096)
    assert len(roomy.regions) == 1
    assert len(tight.regions) > 1
    covered = [n for r in tight.regions for n in r.nodes]
    assert sorted(covered) == list(range(1, len(nodes)))
    assert not [f for f in tight.fallbacks if f.node != 0]


def test_a_node_that_no_kernel_can_be_is_a_fallback() -> None:
    nodes = [
        node("MatMul", ["x", "x"], ["m"]),
        node("Sin", ["m"], ["a"]),
        node("Neg", ["a"], ["y"]),
    ]
    built = models.build(model(nodes, [value("x", [512, 512])], ["y"]), ub_bytes=1024)
    assert [r.nodes for r in built.regions] == [(2,)]
    (first, second) = built.fallbacks
    assert (first.node, first.code) == (0, "AF1201")
    assert (second.node, second.code) == (1, "AF3003")
    assert [(s.kind, s.index) for s in built.steps] == [
        ("fallback", 0),
        ("fallback", 1),
        ("kernel", 0),
    ]


def test_no_kernel_moves_more_than_its_nodes_one_by_one() -> None:
    """Sums with a row that no core can hold: fused, every operand is read for each pass over it."""
    names = ["a", "b", "c", "d"]
    nodes = [node("MatMul", ["x", "x"], ["m"])]
    total = "m"
    for n in names:
        nodes.append(node("Add", [total, n], [f"t{n}"]))
        total = f"t{n}"
    nodes.append(node("Softmax", [total], ["y"], axis=-1))
    width = 1 << 18
    given = [value("x", [4, 4]), *(value(n, [64, width]) for n in names)]
    nodes[0] = node("MatMul", ["x", "w"], ["m"])
    m = model(nodes, given, ["y"])
    m.graph.input.append(value("w", [4, 1]))
    m.graph.node[0].input[0] = "x2"
    m.graph.input.append(value("x2", [64, 4]))
    built = models.build(m)
    assert sorted(n for r in built.regions for n in r.nodes) == list(range(1, 6))
    for r in built.regions:
        assert len(r.nodes) == 1 or (r.bytes_modelled or 0) <= r.bytes_unfused


def test_the_manifest_names_parameters_and_says_what_they_hold() -> None:
    scale = np.arange(4, dtype=np.float32) * 0.3
    nodes = [node("MatMul", ["x", "x"], ["a"]), node("Mul", ["a", "scale"], ["y"])]
    built = models.build(model(nodes, X, ["y"], constants={"scale": scale}))
    found = built.manifest
    assert found["schema"] == "autofuse.model/1"
    assert found["parameters"] == [
        {
            "name": "scale",
            "initializer": "scale",
            "dtype": "float32",
            "shape": [4],
            "sha256": hashlib.sha256(scale.tobytes()).hexdigest(),
        }
    ]
    assert found["order"] == [{"fallback": 0}, {"kernel": 0}]
    assert found["regions"][0]["inputs"] == [
        {"parameter": "x0", "tensor": "a"},
        {"parameter": "x1", "tensor": "scale"},
    ]
    moved = found["regions"][0]["bytes"]
    assert moved["once"] == moved["unfused"] == 4 * (16 + 4 + 16)
    assert moved["modelled"] >= moved["once"]


def test_a_build_is_a_function_of_the_model() -> None:
    m = model([node("MatMul", ["x", "x"], ["a"]), node("Exp", ["a"], ["y"])], X, ["y"])
    data = m.SerializeToString()
    assert models.build(data).files == models.build(data).files


# one kernel or several ------------------------------------------------------------------------


def test_where_nothing_can_be_fused_every_reason_is_said_once() -> None:
    nodes = [
        node("Frobnicate", ["x"], ["a"], name="typo"),
        node("MatMul", ["a", "x"], ["b"]),
        node("MatMul", ["b", "x"], ["c"]),
        node("Exp", ["c"], ["d"]),
        node("Tanh", ["wide"], ["y"], name="wide"),
    ]
    given = [*X, value("wide", [3], TensorProto.DOUBLE)]
    with pytest.raises(AutofuseError) as e:
        models.is_partitioned(model(nodes, given, ["d", "y"]))
    found = [(d.code, d.message, d.where.pointer) for d in e.value.diagnostics]
    cube = "MatMul: matrix multiplication or convolution: work of the cube unit"
    assert found == [
        ("AF1201", "Frobnicate: opset 18 of ONNX has no op of this name", "/graph/node/0"),
        ("AF1201", cube, "/graph/node/1"),
        ("AF1203", "Tanh: no kernel holds elements of type float64", "/graph/node/4"),
    ]
    assert e.value.diagnostics[1].notes == ("so 1 more node",)


def test_an_operator_set_newer_than_the_package_is_refused() -> None:
    m = model([node("Relu", ["x"], ["y"])], X, ["y"], opset=onnx.defs.onnx_opset_version() + 1)
    for read in (models.build, autofuse_read):
        with pytest.raises(AutofuseError, match="the package onnx knows") as e:
            read(m)
        assert [d.code for d in e.value.diagnostics] == ["AF1104"]


def test_a_build_does_not_depend_on_the_order_of_sets(tmp_path: Path) -> None:
    """Texts have other hashes in every process, and sets of them another order."""
    x = [value("x", ["n", "m", 4])]
    nodes = [
        node("HardSigmoid", ["x"], ["a"], alpha=0.3, beta=0.4),
        node("MatMul", ["a", "w"], ["b"]),
        node("Selu", ["b"], ["c"], alpha=1.5, gamma=1.1),
        node("LayerNormalization", ["c", "s", "s"], ["d"], epsilon=1e-3),
        node("Shrink", ["d"], ["y"], lambd=0.1, bias=0.2),
    ]
    held = {"w": np.eye(4, dtype=np.float32), "s": np.arange(4, dtype=np.float32)}
    (tmp_path / "m.onnx").write_bytes(model(nodes, x, ["y"], constants=held).SerializeToString())
    code = "import sys; from autofuse import models; print(dict(models.build(sys.argv[1]).files))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code, tmp_path / "m.onnx"],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in (1, 2, 3, 4)
    }
    assert len(found) == 1


def test_how_it_is_decided() -> None:
    whole = model([node("Relu", ["x"], ["y"])], X, ["y"])
    mixed = model([node("MatMul", ["x", "x"], ["a"]), node("Relu", ["a"], ["y"])], X, ["y"])
    nothing = model([node("MatMul", ["x", "x"], ["y"])], X, ["y"])
    assert not models.is_partitioned(whole)
    assert models.is_partitioned(whole, True)
    assert models.is_partitioned(mixed)
    assert not models.is_partitioned(mixed, False)
    with pytest.raises(AutofuseError, match="cube unit"):
        models.is_partitioned(nothing)
    with pytest.raises(AutofuseError, match="AF1107"):
        models.is_partitioned(model([node("Relu", ["z"], ["y"])], X, ["y"]))


@pytest.mark.parametrize("wrong", ["cycle", "twice", "undefined output", "unread"])
def test_what_is_no_graph_is_refused(wrong: str) -> None:
    nodes, outputs = [node("MatMul", ["x", "x"], ["a"]), node("Relu", ["a"], ["y"])], ["y"]
    if wrong == "cycle":
        nodes[0] = node("MatMul", ["x", "y"], ["a"])
    elif wrong == "twice":
        nodes.append(node("MatMul", ["x", "x"], ["y"]))
    elif wrong == "undefined output":
        outputs = ["z"]
    else:
        nodes[1] = node("Relu", ["b"], ["y"])
    with pytest.raises(AutofuseError) as caught:
        models.build(model(nodes, X, outputs))
    assert {d.code for d in caught.value.diagnostics} <= {"AF1106", "AF1107"}


def test_bytes_cut_off_anywhere_give_a_diagnostic_or_a_model() -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])]
    m = model(nodes, X, ["y"], constants={"w": np.ones((4, 4), np.float32)})
    data = m.SerializeToString()
    for end in range(0, len(data), 3):
        for text in (data[:end], data[:end] + b"\x7f" + data[end + 1 :]):
            try:
                models.build(text)
            except AutofuseError as e:  # noqa: PERF203
                assert all(d.code.startswith("AF1") for d in e.diagnostics), e  # noqa: PT017
