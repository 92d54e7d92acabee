import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends import detect_format, parse_graph, read_graph
from autofuse.implgraph.expr.expression import CeilDiv, const, sym
from autofuse.implgraph.ir.fusion import Constant, GraphOutput, Symbol

EXAMPLES = ["abs_test", "add_bias_dynamic", "adam_like", "demo", "where_mask"]


def graph(nodes, tensors, outputs=("y",), **more):
    return json.dumps(
        {
            "schema": "autofuse.graph/1",
            "name": "g",
            "inputs": [
                dict(zip(("name", "dtype", "shape"), i, strict=False)) for i in tensors or ()
            ],
            "nodes": [
                {
                    "name": f"n{k}",
                    "op": n[0],
                    "inputs": n[1],
                    "outputs": [n[2]],
                    "attrs": n[3] if n[3:] else {},
                }
                for k, n in enumerate(nodes)
            ],
            "outputs": list(outputs),
        }
        | more
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_read(repo, name):
    g = read_graph(repo / "examples" / f"{name}.json")
    assert g.name == name
    assert detect_format((repo / "examples" / f"{name}.json").read_bytes()) == "native"


def test_abs_test(repo):
    g = read_graph(repo / "examples" / "abs_test.json")
    (node,) = g.nodes
    assert (node.name, node.op, node.inputs, node.outputs) == ("abs_0", "Abs", ("x",), ("y",))
    assert node.origin == "/nodes/0"
    assert g.inputs == ("x",)
    assert g.outputs == (GraphOutput("y", "y"),)
    assert g.tensors["y"].shape == (const(200), const(200))
    assert g.tensors["y"].dtype.name == "float32"
    assert g.tensors["y"].origin == "/nodes/0/outputs/0"


def test_in_out_and_scalars(repo):
    g = read_graph(repo / "examples" / "adam_like.json")
    assert [(o.name, o.inout) for o in g.outputs] == [
        ("param_next", "param"),
        ("m_next", "m"),
        ("v_next", "v"),
    ]
    assert g.tensors["lr"].scalar
    assert g.tensors["lr"].shape == ()


def test_nodes_in_any_order_keep_the_order_of_the_file_where_they_can():
    nodes = [
        ("Add", ["c", "b"], "y"),
        ("Neg", ["x"], "b"),
        ("Abs", ["x"], "a"),
        ("Exp", ["a"], "c"),
    ]
    g = parse_graph(graph(nodes, [("x", "float32", [8])]))
    assert [n.op for n in g.nodes] == ["Neg", "Abs", "Exp", "Add"]


def test_aliases_become_registry_names():
    nodes = [("RealDiv", ["x", "x"], "a"), ("Cast", ["a"], "y", {"dtype": "bf16"})]
    g = parse_graph(graph(nodes, [("x", "fp16", [8])]))
    assert [n.op for n in g.nodes] == ["Div", "Cast"]
    assert g.nodes[1].attrs == {"dtype": "bfloat16"}
    assert g.tensors["x"].dtype.name == "float16"


def test_symbols_and_expressions():
    text = graph(
        [("Reshape", ["x"], "y", {"shape": ["s0*4"]})],
        [("x", "float32", ["s0", 4]), ("w", "float32", ["ceil(s0/2)"])],
        symbols={"s0": {"min": 2, "max": 100, "hint": 7}},
    )
    g = parse_graph(text)
    s0 = sym("s0")
    assert g.symbols == (Symbol("s0", 2, 100, 7),)
    assert g.tensors["w"].shape == (CeilDiv(s0, 2),)
    assert g.tensors["y"].shape == (s0 * 4,)
    assert g.nodes[0].attrs["shape"] == (s0 * 4,)


def test_symbols_that_are_no_identifiers_of_cpp():
    g = parse_graph(
        graph(
            [("Abs", ["x"], "y")],
            [("x", "float32", ["int", "2*z0"])],
            symbols={"int": {"max": 9}, "z0": {"max": 9}},
        )
    )
    assert [(s.name, s.label) for s in g.symbols] == [("v_int", "int"), ("v_z0", "z0")]
    assert g.tensors["y"].shape == (sym("v_int"), sym("v_z0") * 2)


def test_tensors_keep_their_names():
    nodes = [("Abs", ["a.b"], "a-b"), ("Abs", ["a-b"], "a/b"), ("Abs", ["a/b"], "half")]
    g = parse_graph(graph(nodes, [("a.b", "float32", [2])], ["half", "a-b"]))
    assert list(g.tensors) == ["a.b", "a-b", "a/b", "half"]
    assert [o.name for o in g.outputs] == ["half", "a-b"]


def test_constants():
    values = [1, 1.5, "inf", "-inf", {"const": 2, "dtype": "float32"}]
    ops = [v if isinstance(v, dict) else {"const": v} for v in values]
    nodes = [("AddN", ["x", *ops], "s"), ("Add", ["s", {"const": "nan"}], "y")]
    g = parse_graph(graph(nodes, [("x", "float32", [2])]))
    assert g.nodes[0].inputs[1:] == (
        Constant(1),
        Constant(1.5),
        Constant(math.inf),
        Constant(-math.inf),
        Constant(2.0, g.tensors["x"].dtype),
    )
    last = g.nodes[1].inputs[1]
    assert isinstance(last, Constant)
    assert math.isnan(last.value)


def test_empty_and_unit_sizes_and_rank_0():
    nodes = [("Add", ["x", "p"], "a"), ("Add", ["a", "one"], "y")]
    g = parse_graph(
        graph(nodes, [("x", "int32", [0, 5]), ("p", "int32", []), ("one", "int32", [1, 1])])
    )
    assert g.tensors["y"].shape == (const(0), const(5))
    assert g.tensors["p"].shape == ()


def test_an_input_can_be_an_output():
    g = parse_graph(graph([], [("x", "float32", [2])], ["x", {"tensor": "x", "name": "copy"}]))
    assert g.outputs == (GraphOutput("x_out", "x"), GraphOutput("copy", "x"))


def test_two_outputs_of_one_tensor():
    g = parse_graph(
        graph(
            [("Abs", ["x"], "y")],
            [("x", "float32", [2])],
            [{"tensor": "y", "inout": "x"}, {"tensor": "y", "name": "b"}],
        )
    )
    assert g.outputs == (GraphOutput("y", "y", "x"), GraphOutput("b", "y"))


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "kept"),
    [
        ([8, 4], [4, 1], 0, None),
        ([8, 4], [16, 1], 3, (16, 1)),
        ([8, 4], [0, 1], None, (0, 1)),
        ([8, 4], [1, 0], None, (1, 0)),
        ([8, 1], [16, 5], None, (16, 5)),
        ([], [], None, None),
    ],
)
def test_strides(shape, strides, offset, kept):
    spec = {"name": "x", "dtype": "float32", "shape": shape, "strides": strides}
    if offset is not None:
        spec["offset"] = offset
    g = parse_graph(graph([("Abs", ["x"], "y")], None, inputs=[spec]))
    x = g.tensors["x"]
    assert x.strides == (None if kept is None else tuple(const(s) for s in kept))
    assert x.offset == (const(offset) if offset else None)
    assert g.tensors["y"].strides is None


def test_symbolic_contiguous_strides_say_nothing():
    spec = {"name": "x", "dtype": "float32", "shape": [3, "n", "m"], "strides": ["m*n", "m", 1]}
    symbols = {"n": {"max": 99}, "m": {"max": 99}}
    g = parse_graph(graph([("Abs", ["x"], "y")], None, inputs=[spec], symbols=symbols))
    assert g.tensors["x"].strides is None


def test_comments_anywhere():
    note = {"$comment": ["a", {"b": 1}]}
    g = parse_graph(
        json.dumps(
            {
                "schema": "autofuse.graph/1",
                "$schema": "graph.schema.json",
                "name": "g",
                "symbols": {"s": {"max": 9} | note} | note,
                "inputs": [{"name": "x", "dtype": "float32", "shape": ["s"]} | note],
                "nodes": [
                    {
                        "name": "n",
                        "op": "Cast",
                        "inputs": ["x"],
                        "outputs": [{"name": "y"} | note],
                        "attrs": {"dtype": "float16"} | note,
                    }
                    | note
                ],
                "outputs": [{"tensor": "y"} | note],
            }
            | note
        )
    )
    assert len(g.nodes) == 1


def test_a_declared_result_that_agrees():
    result = {"name": "y", "dtype": "fp32", "shape": ["4*s", 2]}
    g = parse_graph(
        graph([("Abs", ["x"], result)], [("x", "float32", ["s*4", 2])], symbols={"s": {"max": 9}})
    )
    assert g.tensors["y"].shape == (sym("s") * 4, const(2))


def test_missing_file(tmp_path):
    with pytest.raises(AutofuseError) as caught:
        read_graph(tmp_path / "none.json")
    (d,) = caught.value.diagnostics
    assert d.code == "AF1001"
    assert "none.json" in d.where.path
    with pytest.raises(AutofuseError):
        read_graph(tmp_path)
    with pytest.raises(AutofuseError):
        read_graph("a\0b")


def test_the_same_text_gives_the_same_graph(repo):
    text = (repo / "examples" / "demo.json").read_text()
    assert parse_graph(text) == parse_graph(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**33)
    | st.floats()
    | st.sampled_from(["x", "y", "Abs", "s0", "", "float32"]),
    lambda v: (
        st.lists(v, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "op", "inputs", "outputs", "const", "shape", "attrs", "dtype"]
            ),
            v,
            max_size=4,
        )
    ),
    max_leaves=10,
)
FIELDS = ["schema", "name", "symbols", "inputs", "nodes", "outputs"]


@given(st.data())
def test_garbage_is_refused_in_an_orderly_way(data):
    good = json.loads(
        graph([("Abs", ["x"], "y")], [("x", "float32", ["s0"])], symbols={"s0": {"max": 9}})
    )
    for field in data.draw(st.lists(st.sampled_from(FIELDS), max_size=3)):
        where = good
        steps = [field]
        while steps:
            key = steps.pop()
            inner = where[key] if isinstance(where, (dict, list)) else None
            keys = (
                list(inner)
                if isinstance(inner, dict)
                else list(range(len(inner)))
                if isinstance(inner, list)
                else []
            )
            if keys and data.draw(st.booleans()):
                where, steps = inner, [data.draw(st.sampled_from(keys))]
            else:
                where[key] = data.draw(JSON)
    try:
        parse_graph(json.dumps(good))
    except AutofuseError as e:
        assert e.diagnostics  # noqa: PT017 - both ways are fine, other exceptions are not
