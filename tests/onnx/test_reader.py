"""ONNX models to FusionGraphs, and what is said of those that are none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extras import required

pytestmark = required("onnx")

import onnx
from onnx import TensorProto, helper
from onnx_models import model, node, value

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends import detect_format, parse_graph
from autofuse.frontends.onnx import looks_like_onnx
from autofuse.frontends.onnx.loading import MAX_BYTES
from autofuse.frontends.onnx.reader import convert
from autofuse.implgraph.ir.fusion import Constant, FusionGraph
from autofuse.machines.twin.oracle.oracle import evaluate


def ops_of(graph: FusionGraph) -> list[str]:
    return [n.op for n in graph.nodes]


def codes(m: Any, **options: Any) -> list[str]:
    with pytest.raises(AutofuseError) as caught:
        convert(m, **options)
    return [d.code for d in caught.value.diagnostics]


def graph_of(m: Any, **options: Any) -> FusionGraph:
    found = convert(m, **options).graph
    assert found is not None
    return found


# files ----------------------------------------------------------------------------------------


def test_a_file_is_known_by_its_content_or_name() -> None:
    data = model([node("Relu", ["x"], ["y"])], [value("x", [4])], ["y"]).SerializeToString()
    assert detect_format(data) == "onnx"
    assert parse_graph(data).inputs == ("x",)
    assert looks_like_onnx(b"anything", "m.onnx")
    assert not looks_like_onnx(b'{"schema": "autofuse.graph/1"}')


def test_a_finding_in_a_model_has_no_line(tmp_path: Path) -> None:
    """The file is no text: a message that quotes a line of it would show bytes."""
    m = model([node("Relu", ["x"], ["y"])], [value("x", [1 << 40])], ["y"])
    (tmp_path / "m.onnx").write_bytes(m.SerializeToString())
    with pytest.raises(AutofuseError) as caught:
        api.read(tmp_path / "m.onnx")
    (d,) = caught.value.diagnostics
    assert (d.code, d.where.line, d.where.pointer) == ("AF1109", 0, "/graph/input/0")


@pytest.mark.parametrize("data", [b"", b"\x08", b"\xff" * 40, b"{}", b"\x08\x09\x12\xff\xff"])
def test_bytes_that_are_no_model(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(AutofuseError) as caught:
        api.read(path)
    (found,) = caught.value.diagnostics
    assert found.code == "AF1004"
    assert found.where.path == str(path)


def test_bytes_cut_off_anywhere_give_a_diagnostic_or_a_graph() -> None:
    data = model([node("Relu", ["x"], ["y"])], [value("x", [4])], ["y"]).SerializeToString()
    for end in range(len(data)):
        for text in (data[:end], data[:end] + b"\x7f" + data[end + 1 :]):
            try:
                parse_graph(text, path="m.onnx")
            except AutofuseError as e:  # noqa: PERF203
                assert all(d.code.startswith("AF1") for d in e.diagnostics), e  # noqa: PT017


def test_a_file_that_is_too_large() -> None:
    with pytest.raises(AutofuseError, match="AF1003"):
        parse_graph(bytes(MAX_BYTES + 1), path="m.onnx")


def test_data_in_another_file_are_refused() -> None:
    m = model(
        [node("Add", ["x", "w"], ["y"])], [value("x", [2])], ["y"], constants={"w": [1.0, 2.0]}
    )
    held = m.graph.initializer[0]
    held.data_location = TensorProto.EXTERNAL
    entry = held.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"
    assert codes(m) == ["AF1104"]


# what is refused ------------------------------------------------------------------------------


def test_all_ops_that_no_kernel_holds_are_named_at_once() -> None:
    nodes = [
        node("MatMul", ["x", "x"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("TopK", ["b", "k"], ["y", "i"]),
    ]
    m = model(nodes, [value("x", [4, 4]), value("k", [1], TensorProto.INT64)], ["y"])
    with pytest.raises(AutofuseError) as caught:
        convert(m)
    assert [d.message.split(":")[0] for d in caught.value.diagnostics] == ["MatMul", "TopK"]
    assert {d.code for d in caught.value.diagnostics} == {"AF1201"}


@pytest.mark.parametrize(
    "op", ["If", "Loop", "Scan", "SequenceInsert", "Optional", "StringConcat", "Bernoulli"]
)
def test_what_is_no_tensor_arithmetic(op: str) -> None:
    assert codes(model([node(op, ["x"], ["y"])], [value("x", [4])], ["y"])) == ["AF1201"]


def test_an_unknown_op_domain_and_tensor() -> None:
    x = [value("x", [4])]
    assert codes(model([node("Nonsense", ["x"], ["y"])], x, ["y"])) == ["AF1201"]
    assert codes(model([node("Relu", ["x"], ["y"], domain="com.example")], x, ["y"])) == ["AF1201"]
    assert codes(model([node("Relu", ["z"], ["y"])], x, ["y"])) == ["AF1107"]
    assert codes(model([node("Relu", ["x"], ["y"])], x, ["z"])) == ["AF1107"]
    twice = [node("Relu", ["x"], ["y"]), node("Abs", ["x"], ["y"])]
    assert codes(model(twice, x, ["y"])) == ["AF1106"]


@pytest.mark.parametrize(
    ("op", "attrs", "shape", "code"),
    [
        ("Cast", {}, [4], "AF1205"),  # no target
        ("Cast", {"to": "float"}, [4], "AF1205"),
        ("Relu", {"nonsense": 1}, [4], "AF1205"),
        ("Transpose", {"perm": [0, 0]}, [4, 4], "AF1205"),
        ("Transpose", {"perm": [0]}, [4, 4], "AF1205"),
        ("Softmax", {"axis": 7}, [4, 4], "AF1205"),
        ("DepthToSpace", {"blocksize": 2}, [4, 4], "AF1204"),  # not of rank 4
        ("SpaceToDepth", {"blocksize": 0}, [1, 1, 4, 4], "AF1204"),
        ("Flatten", {"axis": 1}, [1 << 60], "AF1109"),
        ("LRN", {"size": 3}, [4], "AF1204"),
        ("LayerNormalization", {}, [4], "AF1205"),  # no scale
        ("LRN", {"size": 1 << 40}, [1, 2, 2, 2], "AF1205"),
        ("Split", {"num_outputs": 1 << 62}, [4], "AF1205"),
        ("Unsqueeze", {"axes": [0, 0]}, [4], "AF1205"),
        ("Cast", {"to": -1}, [4], "AF1203"),
    ],
)
def test_nodes_that_break_the_rules(op: str, attrs: Any, shape: list[int], code: str) -> None:
    opset = 11 if op == "Unsqueeze" else 18
    m = model([node(op, ["x"], ["y"], **attrs)], [value("x", shape)], ["y"], opset=opset)
    assert codes(m) == [code]


@pytest.mark.parametrize(
    ("op", "attrs", "shapes"),
    [
        ("Add", {}, ([1 << 30, 1], [1, 1 << 30])),
        ("Concat", {"axis": 0}, ([1 << 22, 1 << 25], [1 << 22, 1 << 25])),
    ],
)
def test_a_result_that_is_too_large_though_its_operands_are_not(
    op: str, attrs: Any, shapes: Any
) -> None:
    inputs = [value(f"x{k}", shape) for k, shape in enumerate(shapes)]
    m = model([node(op, ["x0", "x1"], ["y"], **attrs)], inputs, ["y"])
    with pytest.raises(AutofuseError) as caught:
        parse_graph(m.SerializeToString(), path="m.onnx")
    (d,) = caught.value.diagnostics
    assert (d.code, d.where.pointer) == ("AF1109", "/graph/node/0")
    assert f"a result of {op}" in d.message


def test_a_node_without_operands_and_text_that_is_none() -> None:
    assert codes(model([node("Shape", [], ["y"])], [value("x", [4])], ["y"])) == ["AF1205"]
    data = model([node("Relu", ["x"], ["yyyy"])], [value("x", [4])], ["yyyy"]).SerializeToString()
    with pytest.raises(AutofuseError, match=r"AF1004.*UTF-8"):
        parse_graph(data.replace(b"yyyy", b"\xff\xfeyy"), path="m.onnx")
    words = model(
        [node("Equal", ["x", "w"], ["y"])], [value("x", [1])], ["y"], constants={"w": ["a"]}
    )
    assert codes(words) == ["AF1203"]


def test_an_element_type_that_no_kernel_holds() -> None:
    m = model([node("Relu", ["x"], ["y"])], [value("x", [4], TensorProto.DOUBLE)], ["y"])
    assert codes(m) == ["AF1203"]


def test_functions_that_call_themselves() -> None:
    function = helper.make_function(
        "own",
        "F",
        ["a"],
        ["b"],
        [node("F", ["a"], ["b"], domain="own")],
        [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)],
    )
    m = model(
        [node("F", ["x"], ["y"], domain="own")],
        [value("x", [4])],
        ["y"],
        functions=[function],
        domains=["own"],
    )
    assert codes(m) == ["AF1003"]


def test_a_shape_that_only_the_run_knows() -> None:
    inputs = [value("x", [2, 6]), value("s", [2], TensorProto.INT64)]
    m = model([node("Reshape", ["x", "s"], ["y"])], inputs, ["y"])
    assert codes(m) == ["AF1205"]
    found = convert(m, values={"s": np.array([3, -1])})
    assert found.bound == ("s",)
    assert found.graph is not None
    assert found.graph.inputs == ("x",)
    assert [str(s) for s in found.graph.tensors[found.graph.outputs[0].tensor].shape] == ["3", "4"]


def test_a_huge_constant_costs_nothing() -> None:
    nodes = [
        node("ConstantOfShape", ["s"], ["c"]),
        node("Tile", ["c", "s"], ["t"]),
        node("Add", ["x", "t"], ["y"]),
    ]
    m = model(nodes, [value("x", [1])], ["y"], constants={"s": np.array([1 << 30, 1 << 30])})
    assert codes(m)[0].startswith("AF1")


# what is read ---------------------------------------------------------------------------------


def test_names_sizes_and_constants() -> None:
    nodes = [node("Mul", ["in/0:1", "two"], ["a"]), node("Add", ["a", "w"], ["out.y"])]
    constants = {"two": np.float32(2), "w": np.arange(3, dtype=np.float32) ** 2}
    m = model(nodes, [value("in/0:1", ["batch", 3])], ["out.y"], constants=constants)
    found = convert(m)
    graph = found.graph
    assert graph is not None
    assert [s.name for s in graph.symbols] == ["batch"]
    assert graph.inputs == ("in/0:1", "w")
    assert found.inputs == {"in/0:1": "in/0:1"}
    assert [o.name for o in graph.outputs] == ["out.y"]
    assert graph.nodes[0].inputs[1] == Constant(2.0, graph.tensors["w"].dtype)
    np.testing.assert_array_equal(found.constants["w"], [0, 1, 4])


def test_shape_arithmetic_on_symbols() -> None:
    """Flattening all but the first dimension by Shape, Gather, Concat, Reshape."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Concat", ["n", "rest"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "rest": np.array([-1])}
    m = model(nodes, [value("x", ["n", 3, 4])], ["y"], constants=constants)
    graph = graph_of(m)
    assert ops_of(graph) == ["Reshape"]
    assert [str(s) for s in graph.tensors["y"].shape] == ["n", "12"]


def test_symbols_are_as_large_as_their_tensors_may_grow() -> None:
    small = graph_of(model([node("Relu", ["x"], ["y"])], [value("x", ["n", 8])], ["y"]))
    large = graph_of(model([node("Relu", ["x"], ["y"])], [value("x", [*"abcd", 8])], ["y"]))
    assert [s.max for s in small.symbols] == [1 << 20]
    assert [s.max for s in large.symbols] == [1 << 10] * 4


def test_shape_arithmetic_on_numbers() -> None:
    """Everything but the Reshape is evaluated."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Max", ["s", "floor"], ["m"]),
        node("ReduceProd", ["m"], ["p"], keepdims=1),
        node("Reshape", ["x", "p"], ["y"]),
    ]
    m = model(nodes, [value("x", [2, 6])], ["y"], constants={"floor": np.array([1, 3])})
    graph = graph_of(m)
    assert ops_of(graph) == ["Reshape"]
    assert [str(s) for s in graph.tensors["y"].shape] == ["12"]


def test_functions_of_the_model_with_attributes() -> None:
    body = node("LeakyRelu", ["a"], ["b"])
    body.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=1))
    function = helper.make_function(
        "own", "F", ["a"], ["b"], [body], [helper.make_opsetid("", 16)], ["slope"]
    )
    m = model(
        [node("F", ["x"], ["y"], domain="own", slope=0.5)],
        [value("x", [4])],
        ["y"],
        functions=[function],
        domains=["own"],
    )
    graph = graph_of(m)
    x = np.array([-2, -1, 1, 2], np.float32)
    (reference,) = evaluate(graph, {"x": x}, {}).values()
    np.testing.assert_array_equal(reference.value, [-1, -0.5, 1, 2])


def reference_of(m: Any, *arrays: Any, **options: Any) -> Any:
    found = convert(m, **options)
    assert found.graph is not None
    given = dict(zip(found.inputs, arrays, strict=True))
    (out,) = evaluate(found.graph, {**given, **found.constants}, {}).values()
    return out.value


@pytest.mark.parametrize(
    ("opset", "attrs", "more"),
    [(1, {"axes": [1], "keepdims": 0}, []), (18, {"keepdims": 0}, ["axes"])],
)
def test_axes_are_an_attribute_or_an_operand(opset: int, attrs: Any, more: list[str]) -> None:
    constants = {"axes": np.array([1])} if more else {}
    m = model(
        [node("ReduceMax", ["x", *more], ["y"], **attrs)],
        [value("x", [2, 3])],
        ["y"],
        opset=opset,
        constants=constants,
    )
    x = np.array([[1, 5, 2], [7, 0, 3]], np.float32)
    np.testing.assert_array_equal(reference_of(m, x), [5, 7])


def test_softmax_up_to_version_12_takes_everything_from_the_axis_on() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    old = model([node("Softmax", ["x"], ["y"])], [value("x", [2, 2, 2])], ["y"], opset=12)
    np.testing.assert_allclose(reference_of(old, x).sum(axis=(1, 2)), [1, 1], rtol=1e-6)
    new = model([node("Softmax", ["x"], ["y"])], [value("x", [2, 2, 2])], ["y"], opset=13)
    np.testing.assert_allclose(reference_of(new, x).sum(axis=2), np.ones((2, 2)), rtol=1e-6)


def test_clip_slice_and_squeeze_of_old_versions() -> None:
    nodes = [
        node("Clip", ["x"], ["a"], min=0.0, max=5.0),
        node("Slice", ["a"], ["b"], starts=[1], ends=[2], axes=[0]),
        node("Squeeze", ["b"], ["y"], axes=[0]),
    ]
    m = model(nodes, [value("x", [2, 3])], ["y"], opset=6)
    x = np.array([[0, 0, 0], [-1, 3, 9]], np.float32)
    np.testing.assert_array_equal(reference_of(m, x), [0, 3, 5])


def test_a_dead_part_of_the_model_is_left_out() -> None:
    nodes = [node("Exp", ["z"], ["unused"]), node("Relu", ["x"], ["y"])]
    graph = graph_of(model(nodes, [value("x", [4]), value("z", [4])], ["y"]))
    assert graph.inputs == ("x",)
    assert ops_of(graph) == ["Relu"]


def test_an_output_that_is_an_input() -> None:
    graph = graph_of(model([node("Identity", ["x"], ["y"])], [value("x", [4])], ["y"]))
    assert [(o.name, o.tensor) for o in graph.outputs] == [("y", "x")]


def test_a_result_that_is_known_is_no_kernel() -> None:
    m = model([node("Shape", ["x"], ["y"])], [value("x", [2, 3])], ["y"])
    found = convert(m)
    assert found.graph is None
    np.testing.assert_array_equal(found.outputs[0], [2, 3])
    with pytest.raises(AutofuseError, match="AF1204"):
        parse_graph(m.SerializeToString())


def test_constants_that_count_are_made_by_the_kernel() -> None:
    m = model(
        [node("Add", ["x", "i"], ["y"])],
        [value("x", [5], TensorProto.INT32)],
        ["y"],
        constants={"i": np.arange(3, 13, 2, dtype=np.int32)},
    )
    found = convert(m)
    assert found.graph is not None
    assert ops_of(found.graph) == ["Iota", "Add"]
    assert not found.constants


def test_the_same_model_gives_the_same_graph() -> None:
    m = model([node("Gelu", ["x"], ["y"])], [value("x", [7])], ["y"], opset=20)
    assert graph_of(m) == graph_of(m)


# sizes that are declared by a negative number -------------------------------------------------


def test_minus_one_is_an_unknown_size() -> None:
    m = model([node("Relu", ["x"], ["y"])], [value("x", [-1, 5, -1])], ["y"])
    graph = graph_of(m)
    assert [str(s) for s in graph.tensors["x"].shape] == ["x_0", "5", "x_2"]


def test_other_negative_sizes_are_refused() -> None:
    m = model([node("Relu", ["x"], ["y"])], [value("x", [-2, 5])], ["y"])
    assert codes(m) == ["AF1109"]


@pytest.mark.parametrize("dims", [[-64], [-1], [-2], [8, -8], [-8, -8]])
def test_an_initialiser_of_negative_size_is_refused(dims: list[int]) -> None:
    nodes = [node("Add", ["x", "w"], ["y"])]
    m = model(nodes, [value("x", [64])], ["y"], constants={"w": np.zeros(64, np.float32)})
    m.graph.initializer[0].dims[:] = dims
    assert codes(m) == ["AF1104"]


def test_a_constant_of_negative_size_is_refused() -> None:
    held = helper.make_tensor("c", TensorProto.FLOAT, [4], [1, 2, 3, 4])
    held.dims[:] = [-4]
    nodes = [node("Constant", [], ["c"], value=held), node("Add", ["x", "c"], ["y"])]
    assert codes(model(nodes, [value("x", [4])], ["y"])) == ["AF1104"]
