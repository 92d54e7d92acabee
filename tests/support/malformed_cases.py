"""Graph files that are wrong, and what must be said about each.

``CASES`` holds ``(id, text, [(code, pointer), ...])``: every diagnostic that the text must give, in
any order, and no others.

One file: one table.
"""

import json
from typing import Any

Case = tuple[str, "str | bytes", list[tuple[str, str]]]


def graph(**changes: Any) -> dict[str, Any]:
    """A valid graph, y = relu(x + b), with some fields replaced; one set to None is left out."""
    base: dict[str, Any] = {
        "schema": "autofuse.graph/1",
        "name": "g",
        "symbols": {"s0": {"min": 1, "max": 4096, "hint": 128}},
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": ["s0", 64]},
            {"name": "b", "dtype": "float32", "shape": [64]},
        ],
        "nodes": [
            {"name": "add", "op": "Add", "inputs": ["x", "b"], "outputs": ["t"]},
            {"name": "relu", "op": "Relu", "inputs": ["t"], "outputs": ["y"]},
        ],
        "outputs": ["y"],
    }
    return {k: v for k, v in (base | changes).items() if v is not None}


def text(**changes: Any) -> str:
    return json.dumps(graph(**changes), indent=1)


def one_input(**fields: Any) -> str:
    """A graph with the single input x; ``fields`` replace the input's."""
    spec = {"name": "x", "dtype": "float32", "shape": ["s0", 64]} | fields
    spec = {k: v for k, v in spec.items() if v is not None}
    nodes = [{"name": "n", "op": "Relu", "inputs": ["x"], "outputs": ["y"]}]
    return text(inputs=[spec], nodes=nodes)


def one_node(**fields: Any) -> str:
    """A graph with the single node n of x and b; ``fields`` replace the node's."""
    spec = {"name": "n", "op": "Add", "inputs": ["x", "b"], "outputs": ["y"]} | fields
    return text(nodes=[{k: v for k, v in spec.items() if v is not None}])


def dims(*shape: Any) -> str:
    return one_input(shape=list(shape))


def outputs(*items: Any) -> str:
    return text(outputs=list(items))


def akg(*ops: dict[str, Any], inputs: Any = None, out: Any = None, **top: Any) -> str:
    """An AKG file on the inputs x and z, float32 [4, 8]; its output is the last op's."""
    return json.dumps(
        {
            "op": "Fused_test_1",
            "composite": True,
            "input_desc": [[desc("x")], [desc("z")]] if inputs is None else inputs,
            "output_desc": [ops[-1]["output_desc"][0]] if out is None else out,
            "op_desc": list(ops),
        }
        | top
    )


def desc(name: str, shape: Any = (4, 8), dtype: str = "float32", **more: Any) -> dict[str, Any]:
    return {
        "tensor_name": name,
        "shape": list(shape),
        "data_type": dtype,
        "format": "DefaultFormat",
    } | more


def op(
    name: str, inputs: list[dict[str, Any]], out: dict[str, Any], **attrs: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "attr": [{"name": k, "data_type": "any", "value": v} for k, v in attrs.items()] or None,
        "impl_path": "",
        "input_desc": [[d] for d in inputs],
        "output_desc": [out],
    }


X, Z, Y = desc("x"), desc("z"), desc("y")
_MANY_DIMS = [1] * 17

CASES: list[Case] = [
    # not JSON, or not a graph
    ("empty", "", [("AF1002", "")]),
    ("truncated", text()[:200], [("AF1002", "")]),
    ("not_json", "graph { add x y }", [("AF1002", "")]),
    ("trailing_comma", '{"schema": "autofuse.graph/1", "name": "g",}', [("AF1002", "")]),
    ("comment", '{ // a comment\n "schema": "autofuse.graph/1"}', [("AF1002", "")]),
    ("single_quotes", "{'schema': 'autofuse.graph/1'}", [("AF1002", "")]),
    ("not_utf8", b'{"schema": "\xff\xfe"}', [("AF1002", "")]),
    ("control_character", '{"schema": "a\nb"}', [("AF1002", "")]),
    ("half_surrogate", '{"schema": "\\ud800"}', [("AF1002", "/schema")]),
    (
        "nan_literal",
        one_node(inputs=["x", {"const": float("nan")}]),
        [("AF1002", "/nodes/0/inputs/1/const")],
    ),
    (
        "infinity_literals",
        one_node(inputs=[{"const": float("inf")}, {"const": float("-inf")}]),
        [("AF1002", "/nodes/0/inputs/0/const"), ("AF1002", "/nodes/0/inputs/1/const")],
    ),
    ("huge_integer", dims("s0", 10**400), [("AF1104", "/inputs/0/shape/1")]),
    ("integer_beyond_64_bits", dims("s0", 2**64), [("AF1104", "/inputs/0/shape/1")]),
    ("huge_float", '{"nodes": [1e999]}', [("AF1104", "/nodes/0")]),
    (
        "duplicate_keys",
        '{"nodes": [], "name": "a", "name": "b", "x/y": 1, "x/y": 2}',
        [("AF1106", "/name"), ("AF1106", "/x~1y")],
    ),
    ("deep", '{"nodes": ' + "[" * 70 + "]" * 70 + "}", [("AF1003", "")]),
    ("very_deep", "[" * 100_000 + "]" * 100_000, [("AF1003", "")]),
    ("list_at_the_top", "[1, 2]", [("AF1004", "")]),
    ("number_at_the_top", "42", [("AF1004", "")]),
    ("unknown_format", '{"ir_version": 8, "graph": {}}', [("AF1004", "")]),
    ("empty_object", "{}", [("AF1004", "")]),
    ("other_version", text(schema="autofuse.graph/2"), [("AF1104", "/schema")]),
    # fields
    ("no_schema", text(schema=None), [("AF1101", "")]),
    ("no_name", text(name=None), [("AF1101", "")]),
    ("no_inputs", text(inputs=None), [("AF1101", "")]),
    ("no_nodes", text(nodes=None), [("AF1101", "")]),
    ("no_outputs", text(outputs=None), [("AF1101", "")]),
    ("no_op", one_node(op=None), [("AF1101", "/nodes/0")]),
    ("no_node_outputs", one_node(outputs=None), [("AF1101", "/nodes/0")]),
    ("no_dtype", one_input(dtype=None), [("AF1101", "/inputs/0")]),
    ("no_shape", one_input(shape=None), [("AF1101", "/inputs/0")]),
    ("output_without_tensor", outputs({"inout": "x"}), [("AF1101", "/outputs/0")]),
    ("unknown_field_at_the_top", text(input=[]), [("AF1102", "/input")]),
    ("unknown_field_of_input", one_input(dtpye="float32"), [("AF1102", "/inputs/0/dtpye")]),
    ("unknown_field_of_node", one_node(attributes={}), [("AF1102", "/nodes/0/attributes")]),
    (
        "unknown_field_of_symbol",
        text(symbols={"s0": {"maximum": 8}}),
        [("AF1102", "/symbols/s0/maximum")],
    ),
    (
        "unknown_field_of_constant",
        one_node(inputs=["x", {"const": 1, "type": "f"}]),
        [("AF1102", "/nodes/0/inputs/1/type")],
    ),
    (
        "unknown_field_of_output",
        outputs({"tensor": "y", "alias": "x"}),
        [("AF1102", "/outputs/0/alias")],
    ),
    ("nodes_is_an_object", text(nodes={"a": 1}), [("AF1103", "/nodes")]),
    ("inputs_is_a_text", text(inputs="x"), [("AF1103", "/inputs")]),
    ("symbols_is_a_list", text(symbols=["s0"]), [("AF1103", "/symbols")]),
    ("name_is_a_number", text(name=7), [("AF1103", "/name")]),
    ("name_is_null", json.dumps(graph() | {"name": None}), [("AF1103", "/name")]),
    ("input_is_a_text", text(inputs=["x", graph()["inputs"][1]]), [("AF1103", "/inputs/0")]),
    ("node_is_null", text(nodes=[None]), [("AF1103", "/nodes/0")]),
    ("operand_is_a_number", one_node(inputs=["x", 1.5]), [("AF1103", "/nodes/0/inputs/1")]),
    ("operand_is_a_list", one_node(inputs=["x", ["b"]]), [("AF1103", "/nodes/0/inputs/1")]),
    (
        "constant_is_a_text",
        one_node(inputs=["x", {"const": "1.5"}]),
        [("AF1103", "/nodes/0/inputs/1/const")],
    ),
    (
        "constant_is_null",
        one_node(inputs=["x", {"const": None}]),
        [("AF1103", "/nodes/0/inputs/1/const")],
    ),
    ("size_is_a_float", dims("s0", 64.0), [("AF1103", "/inputs/0/shape/1")]),
    ("size_is_a_bool", dims("s0", True), [("AF1103", "/inputs/0/shape/1")]),
    ("size_is_null", dims("s0", None), [("AF1103", "/inputs/0/shape/1")]),
    ("shape_is_a_number", one_input(shape=64), [("AF1103", "/inputs/0/shape")]),
    ("scalar_is_a_number", one_input(scalar=1), [("AF1103", "/inputs/0/scalar")]),
    ("min_is_a_text", text(symbols={"s0": {"min": "1"}}), [("AF1103", "/symbols/s0/min")]),
    ("attrs_is_a_list", one_node(attrs=[]), [("AF1103", "/nodes/0/attrs")]),
    ("attr_is_an_object", one_node(attrs={"a": {"b": 1}}), [("AF1103", "/nodes/0/attrs/a")]),
    ("output_is_a_number", outputs("y", 3), [("AF1103", "/outputs/1")]),
    ("no_outputs_at_all", outputs(), [("AF1104", "/outputs")]),
    # values
    ("unknown_dtype", one_input(dtype="flaot32"), [("AF1104", "/inputs/0/dtype")]),
    ("dtype_of_ub_only", one_input(dtype="mask"), [("AF1104", "/inputs/0/dtype")]),
    ("min_above_max", text(symbols={"s0": {"min": 9, "max": 8}}), [("AF1104", "/symbols/s0/min")]),
    (
        "hint_out_of_range",
        text(symbols={"s0": {"max": 8, "hint": 9}}),
        [("AF1104", "/symbols/s0/hint")],
    ),
    ("negative_min", text(symbols={"s0": {"min": -1}}), [("AF1104", "/symbols/s0/min")]),
    ("max_too_large", text(symbols={"s0": {"max": 2**31 + 1}}), [("AF1104", "/symbols/s0/max")]),
    ("scalar_with_a_shape", one_input(scalar=True), [("AF1104", "/inputs/0/shape")]),
    (
        "constant_out_of_range",
        one_node(inputs=["x", {"const": 300, "dtype": "int8"}]),
        [("AF1104", "/nodes/0/inputs/1/const")],
    ),
    (
        "constant_out_of_range_of_the_tensor",
        text(
            inputs=[{"name": "x", "dtype": "int16", "shape": [8]}],
            nodes=[{"name": "n", "op": "Add", "inputs": ["x", {"const": 40000}], "outputs": ["y"]}],
        ),
        [("AF1104", "/nodes/0/inputs/1")],
    ),
    (
        "infinity_beside_integers",
        text(
            inputs=[{"name": "x", "dtype": "int32", "shape": [8]}],
            nodes=[{"name": "n", "op": "Add", "inputs": ["x", {"const": "inf"}], "outputs": ["y"]}],
        ),
        [("AF1203", "/nodes/0/inputs/1")],
    ),
    # names
    ("cpp_in_graph_name", text(name='x;\nsystem("rm -rf /");'), [("AF1105", "/name")]),
    ("escape_in_node_name", one_node(name="n\x1b]0;title\x07"), [("AF1105", "/nodes/0/name")]),
    (
        "newline_in_tensor_name",
        one_node(outputs=["y\n#include <x>"]),
        [("AF1105", "/nodes/0/outputs/0"), ("AF1107", "/outputs/0")],
    ),
    ("empty_name", text(name=""), [("AF1105", "/name")]),
    ("name_ends_with_a_space", text(name="g "), [("AF1105", "/name")]),
    ("direction_mark_in_name", text(name="g\u202egpj"), [("AF1105", "/name")]),
    ("long_name", text(name="n" * 257), [("AF1105", "/name")]),
    ("symbol_with_a_dot", text(symbols={"s0": {}, "a.b": {}}), [("AF1105", "/symbols/a.b")]),
    (
        "line_separator_in_output_name",
        outputs({"tensor": "y", "name": "y\u2028{"}),
        [("AF1105", "/outputs/0/name")],
    ),
    (
        "input_twice",
        text(inputs=[*graph()["inputs"], {"name": "x", "dtype": "float16", "shape": [2]}]),
        [("AF1106", "/inputs/2/name")],
    ),
    (
        "node_name_twice",
        text(nodes=[n | {"name": "n"} for n in graph()["nodes"]]),
        [("AF1106", "/nodes/1/name")],
    ),
    (
        "result_named_like_input",
        one_node(outputs=["x"]),
        [("AF1106", "/nodes/0/outputs/0"), ("AF1107", "/outputs/0")],
    ),
    ("output_twice", outputs("y", "y"), [("AF1106", "/outputs/1")]),
    ("undefined_operand", one_node(inputs=["x", "bb"]), [("AF1107", "/nodes/0/inputs/1")]),
    ("undefined_output", outputs("y", "z"), [("AF1107", "/outputs/1")]),
    ("undefined_inout", outputs({"tensor": "y", "inout": "xx"}), [("AF1107", "/outputs/0/inout")]),
    # sizes
    ("unknown_symbol", dims("s1", 64), [("AF1108", "/inputs/0/shape/0")]),
    ("bad_expression", dims("s0 *", 64), [("AF1108", "/inputs/0/shape/0")]),
    ("cpp_in_expression", dims("s0; exit(1)", 64), [("AF1108", "/inputs/0/shape/0")]),
    ("python_in_expression", dims("__import__('os')", 64), [("AF1108", "/inputs/0/shape/0")]),
    ("expression_not_an_integer", dims("s0/2", 64), [("AF1108", "/inputs/0/shape/0")]),
    ("division_by_zero", dims("ceil(s0/0)", 64), [("AF1108", "/inputs/0/shape/0")]),
    (
        "expression_of_high_degree",
        dims("*".join(["s0"] * 1300), 64),
        [("AF1108", "/inputs/0/shape/0")],
    ),
    (
        "expression_with_large_numbers",
        dims("*".join(["9" * 19] * 190), 64),
        [("AF1108", "/inputs/0/shape/0")],
    ),
    (
        "large_numbers_in_a_message",
        dims("min(" + "*".join(["9" * 19] * 190) + ", s0) // 0", 64),
        [("AF1108", "/inputs/0/shape/0")],
    ),
    ("empty_expression", dims("", 64), [("AF1108", "/inputs/0/shape/0")]),
    ("long_expression", dims("s0" + "+s0" * 3000, 64), [("AF1108", "/inputs/0/shape/0")]),
    ("deep_expression", dims("(" * 200 + "s0" + ")" * 200, 64), [("AF1108", "/inputs/0/shape/0")]),
    (
        "divisor_may_be_zero",
        text(
            symbols={"s0": {"min": 0}},
            inputs=[{"name": "x", "dtype": "float32", "shape": ["ceil(64/s0)"]}],
            nodes=[{"name": "n", "op": "Relu", "inputs": ["x"], "outputs": ["y"]}],
        ),
        [("AF1109", "/inputs/0/shape")],
    ),
    ("negative_size", dims("s0", -1), [("AF1109", "/inputs/0/shape/1")]),
    ("size_can_be_negative", dims("s0 - 2", 64), [("AF1109", "/inputs/0/shape")]),
    ("size_too_large", dims(2**31 + 1), [("AF1109", "/inputs/0/shape")]),
    ("too_many_elements", dims(2**20, 2**20, 2**20), [("AF1109", "/inputs/0/shape")]),
    (
        "too_many_elements_for_some_symbols",
        text(
            symbols={"s0": {}, "s1": {}},
            inputs=[{"name": "x", "dtype": "float32", "shape": ["s0", "s1"]}],
            nodes=[{"name": "n", "op": "Relu", "inputs": ["x"], "outputs": ["y"]}],
        ),
        [("AF1109", "/inputs/0/shape")],
    ),
    ("rank_too_large", dims(*_MANY_DIMS), [("AF1109", "/inputs/0/shape")]),
    (
        "result_too_large",
        text(
            inputs=[
                {"name": "x", "dtype": "float32", "shape": [2**24, 1]},
                {"name": "b", "dtype": "float32", "shape": [1, 2**24]},
            ]
        ),
        [("AF1109", "/nodes/0/outputs/0")],
    ),
    ("too_many_nodes", text(nodes=[{}] * 10_001), [("AF1109", "/nodes")]),
    # in-out and strides
    (
        "inout_of_a_result",
        outputs({"tensor": "y", "inout": "t"}),
        [("AF1110", "/outputs/0/inout")],
    ),
    (
        "inout_of_another_shape",
        outputs({"tensor": "y", "inout": "b"}),
        [("AF1110", "/outputs/0/inout")],
    ),
    (
        "inout_twice",
        outputs({"tensor": "y", "inout": "x"}, {"tensor": "t", "inout": "x"}),
        [("AF1110", "/outputs/1/inout")],
    ),
    (
        "inout_of_another_dtype",
        text(
            inputs=[{"name": "x", "dtype": "float32", "shape": [8]}],
            nodes=[
                {
                    "name": "n",
                    "op": "Cast",
                    "inputs": ["x"],
                    "outputs": ["y"],
                    "attrs": {"dtype": "fp16"},
                }
            ],
            outputs=[{"tensor": "y", "inout": "x"}],
        ),
        [("AF1110", "/outputs/0/inout")],
    ),
    (
        "inout_of_a_strided_input",
        text(
            inputs=[{"name": "x", "dtype": "float32", "shape": [8, 8], "strides": [16, 1]}],
            nodes=[{"name": "n", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}],
            outputs=[{"tensor": "y", "inout": "x"}],
        ),
        [("AF1110", "/outputs/0/inout")],
    ),
    ("strides_of_another_rank", one_input(strides=[1]), [("AF1111", "/inputs/0/strides")]),
    ("innermost_stride", one_input(strides=[128, 2]), [("AF1111", "/inputs/0/strides/1")]),
    ("negative_stride", one_input(strides=["0 - s0", 1]), [("AF1111", "/inputs/0/strides/0")]),
    ("negative_offset", one_input(offset="s0 - 5"), [("AF1111", "/inputs/0/offset")]),
    ("strides_reach_too_far", one_input(strides=[2**40, 1]), [("AF1111", "/inputs/0/strides")]),
    ("scalar_with_offset", one_input(scalar=True, shape=[], offset=4), [("AF1111", "/inputs/0")]),
    # ops
    ("unknown_op", one_node(op="Ad"), [("AF1201", "/nodes/0/op")]),
    ("op_of_the_device", one_node(op="Adds"), [("AF1201", "/nodes/0/op")]),
    ("too_few_operands", one_node(inputs=["x"]), [("AF1202", "/nodes/0/inputs")]),
    ("too_many_operands", one_node(op="Abs"), [("AF1202", "/nodes/0/inputs")]),
    ("two_results", one_node(outputs=["y", "z"]), [("AF1202", "/nodes/0/outputs")]),
    ("no_results", one_node(outputs=[]), [("AF1202", "/nodes/0/outputs")]),
    (
        "mixed_dtypes",
        text(inputs=[graph()["inputs"][0], {"name": "b", "dtype": "float16", "shape": [64]}]),
        [("AF1203", "/nodes/0")],
    ),
    (
        "fraction_beside_integers",
        text(
            inputs=[{"name": "x", "dtype": "int32", "shape": [8]}],
            nodes=[{"name": "n", "op": "Mul", "inputs": ["x", {"const": 0.5}], "outputs": ["y"]}],
        ),
        [("AF1203", "/nodes/0")],
    ),
    ("select_on_floats", one_node(op="Select", inputs=["x", "x", "b"]), [("AF1203", "/nodes/0")]),
    (
        "shapes_do_not_broadcast",
        text(inputs=[graph()["inputs"][0], {"name": "b", "dtype": "float32", "shape": [63]}]),
        [("AF1204", "/nodes/0")],
    ),
    (
        "reshape_of_another_count",
        one_node(op="Reshape", inputs=["x"], attrs={"shape": ["s0", 32]}),
        [("AF1204", "/nodes/0")],
    ),
    (
        "broadcast_to_smaller",
        one_node(op="Broadcast", inputs=["x"], attrs={"shape": [64]}),
        [("AF1204", "/nodes/0")],
    ),
    ("missing_attr", one_node(op="Cast", inputs=["x"]), [("AF1205", "/nodes/0")]),
    (
        "missing_attr_in_attrs",
        one_node(op="Cast", inputs=["x"], attrs={}),
        [("AF1205", "/nodes/0/attrs")],
    ),
    ("unknown_attr", one_node(attrs={"axis": 1}), [("AF1205", "/nodes/0/attrs/axis")]),
    (
        "misspelt_attr",
        one_node(op="Cast", inputs=["x"], attrs={"dytpe": "float16"}),
        [("AF1205", "/nodes/0/attrs/dytpe"), ("AF1205", "/nodes/0/attrs")],
    ),
    (
        "attr_of_another_kind",
        one_node(op="Reshape", inputs=["x"], attrs={"shape": 64}),
        [("AF1205", "/nodes/0/attrs/shape")],
    ),
    (
        "attr_with_bad_expression",
        one_node(op="Reshape", inputs=["x"], attrs={"shape": ["s0 s0"]}),
        [("AF1108", "/nodes/0/attrs/shape/0")],
    ),
    (
        "attr_with_a_dtype_of_others",
        one_node(op="Cast", inputs=["x"], attrs={"dtype": "float64"}),
        [("AF1203", "/nodes/0/attrs/dtype")],
    ),
    (
        "attr_with_bad_dtype",
        one_node(op="Cast", inputs=["x"], attrs={"dtype": "float65"}),
        [("AF1104", "/nodes/0/attrs/dtype")],
    ),
    (
        "unknown_field_hides_nothing",
        one_node(op="Einsum", inputs=["x"], axis=1),
        [("AF1102", "/nodes/0/axis"), ("AF1201", "/nodes/0/op")],
    ),
    (
        "cycle",
        text(
            nodes=[
                {"name": "a", "op": "Add", "inputs": ["x", "q"], "outputs": ["p"]},
                {"name": "c", "op": "Abs", "inputs": ["p"], "outputs": ["q"]},
                {"name": "d", "op": "Abs", "inputs": ["q"], "outputs": ["y"]},
            ]
        ),
        [("AF1206", "/nodes/0")],
    ),
    ("self_loop", one_node(inputs=["x", "y"]), [("AF1206", "/nodes/0")]),
    (
        "declared_otherwise",
        one_node(outputs=[{"name": "y", "dtype": "float16", "shape": [64, "s0"]}]),
        [("AF1207", "/nodes/0/outputs/0/dtype"), ("AF1207", "/nodes/0/outputs/0/shape")],
    ),
    # several at once, and nothing that only follows from them
    (
        "several",
        text(
            name="a\tb",
            symbols={"s0": {"min": 5, "max": 1}},
            inputs=[
                {"name": "x", "dtype": "float31", "shape": ["s0"]},
                {"name": "b", "dtype": "int32", "shape": [-4]},
            ],
            nodes=[
                {"name": "n", "op": "Adx", "inputs": ["x", "b"], "outputs": ["t"]},
                {"name": "m", "op": "Abs", "inputs": ["t", "u"], "outputs": ["y"]},
                {"name": "k", "op": "Neg", "inputs": ["y"], "outputs": ["v"], "atrs": {}},
            ],
            outputs=["v", "w"],
        ),
        [
            ("AF1105", "/name"),
            ("AF1104", "/symbols/s0/min"),
            ("AF1104", "/inputs/0/dtype"),
            ("AF1109", "/inputs/1/shape/0"),
            ("AF1201", "/nodes/0/op"),
            ("AF1202", "/nodes/1/inputs"),
            ("AF1107", "/nodes/1/inputs/1"),
            ("AF1102", "/nodes/2/atrs"),
            ("AF1107", "/outputs/1"),
        ],
    ),
    # AKG
    (
        "akg_unsupported",
        akg(op("Conv2D", [X], Y, axis=[0]), op("Conv2D", [X], desc("y2"))),
        [("AF1201", "/op_desc/0/name")],
    ),
    (
        "akg_two_unsupported",
        akg(
            op("MatMul", [X], Y, axis=[0]),
            op("Conv2D", [Y], desc("q")),
            op("Add", [desc("q"), Z], desc("w")),
        ),
        [("AF1201", "/op_desc/0/name"), ("AF1201", "/op_desc/1/name")],
    ),
    (
        "akg_tile_that_repeats",
        akg(op("Tile", [X], desc("y", [8, 8]), multiples=[2, 1])),
        [("AF1201", "/op_desc/0/name")],
    ),
    ("akg_no_ops", '{"op": "f", "composite": true, "input_desc": []}', [("AF1004", "")]),
    ("akg_ops_is_an_object", akg(op("Abs", [X], Y), op_desc={}), [("AF1103", "/op_desc")]),
    (
        "akg_op_without_name",
        akg({k: v for k, v in op("Abs", [X], Y).items() if k != "name"}),
        [("AF1101", "/op_desc/0")],
    ),
    (
        "akg_shape_is_a_text",
        akg(op("Abs", [X | {"shape": "4"}], Y)),
        [("AF1103", "/op_desc/0/input_desc/0/0/shape")],
    ),
    (
        "akg_undefined",
        akg(op("Abs", [desc("q")], Y)),
        [("AF1107", "/op_desc/0/input_desc/0/0/tensor_name")],
    ),
    (
        "akg_undefined_output",
        akg(op("Abs", [X], Y), out=[desc("q")]),
        [("AF1107", "/output_desc/0/tensor_name")],
    ),
    (
        "akg_result_twice",
        akg(op("Abs", [X], Y), op("Neg", [X], Y)),
        [("AF1106", "/op_desc/1/output_desc/0/tensor_name")],
    ),
    (
        "akg_input_twice",
        akg(op("Abs", [X], Y), inputs=[[X], [X]]),
        [("AF1106", "/input_desc/1/0/tensor_name")],
    ),
    (
        "akg_complex",
        akg(op("Abs", [desc("c", dtype="complex64")], Y), inputs=[[desc("c", dtype="complex64")]]),
        [("AF1203", "/input_desc/0/0/data_type")],
    ),
    (
        "akg_wrong_shape",
        akg(op("Add", [X, Z], desc("y", [4, 9]))),
        [("AF1207", "/op_desc/0/output_desc/0")],
    ),
    (
        "akg_wrong_dtype",
        akg(op("Add", [X, Z], desc("y", dtype="float16"))),
        [("AF1207", "/op_desc/0/output_desc/0/data_type")],
    ),
    (
        "akg_operand_of_another_count",
        akg(op("Abs", [desc("x", [4, 9])], desc("y", [4, 9]))),
        [("AF1207", "/op_desc/0/input_desc/0/0")],
    ),
    (
        "akg_cast_disagrees",
        akg(op("Cast", [X], desc("y", dtype="float16"), dst_type="int32")),
        [("AF1207", "/op_desc/0/output_desc/0/data_type")],
    ),
    ("akg_arity", akg(op("Add", [X], Y)), [("AF1202", "/op_desc/0")]),
    (
        "akg_assign_to_a_result",
        akg(op("Abs", [X], Y), op("Assign", [Y, X], desc("o"))),
        [("AF1110", "/op_desc/1/input_desc/0/0/tensor_name")],
    ),
    (
        "akg_assign_twice",
        akg(op("Assign", [X, Z], desc("o")), op("Assign", [X, Z], desc("p"))),
        [("AF1110", "/op_desc/1/input_desc/0/0/tensor_name")],
    ),
    (
        "akg_assign_of_another_dtype",
        akg(
            op("Cast", [X], desc("h", dtype="float16")),
            op("Assign", [X, desc("h", dtype="float16")], desc("o")),
        ),
        [("AF1110", "/op_desc/1/input_desc/1/0/data_type")],
    ),
    (
        "akg_constant_tensor",
        akg(op("Add", [X, desc("c", [2], value=[1.0, 2.0])], Y)),
        [("AF1104", "/op_desc/0/input_desc/1/0/value")],
    ),
    (
        "akg_negative_size",
        akg(op("Abs", [X], Y), inputs=[[desc("x", [-2, 8])]]),
        [("AF1109", "/input_desc/0/0/shape/0")],
    ),
    (
        "akg_bad_symbol",
        akg(op("Abs", [X], Y), inputs=[[desc("x", [-1, 8], symbolic_shape=["s0 $", "8"])]]),
        [("AF1108", "/input_desc/0/0/symbolic_shape/0")],
    ),
    (
        "akg_symbols_that_explode",
        akg(
            op("Abs", [X], Y),
            inputs=[[desc("x", [-1, 8], symbolic_shape=["s40", "8"])]],
            symbol_calc_expr={f"s{i + 1}": f"ScalarMul(s{i}, s{i})" for i in range(400)},
        ),
        [("AF1108", "/input_desc/0/0/symbolic_shape/0")],
    ),
    (
        "akg_symbols_in_a_circle",
        akg(
            op("Abs", [X], Y),
            inputs=[[desc("x", [-1, 8], symbolic_shape=["s1", "8"])]],
            symbol_calc_expr={"s1": "ScalarAdd(s2, 1)", "s2": "ScalarAdd(s1, 1)"},
        ),
        [("AF1108", "/input_desc/0/0/symbolic_shape/0")],
    ),
]
