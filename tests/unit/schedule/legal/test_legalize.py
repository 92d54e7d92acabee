"""Legalisation: which calls an op becomes, by dtype and by kind of operand."""

import math

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ops.registry import all_ops
from autofuse.targets import load_target

X = {"x": ("float32", [64])}
XY = {"x": ("float32", [64]), "y": ("float32", [64])}


def ops(nodes):
    return [n.op for n in nodes.values() if n.op not in ("Load", "Store", "Scalar")]


def scalars(nodes):
    return [n.attrs["value"] for n in nodes.values() if n.op == "Scalar"]


def test_tensors_keep_the_binary_call(legal):
    assert ops(legal(XY, [("z", "Add", ["x", "y"])], ["z"])) == ["Add"]


@pytest.mark.parametrize("operands", [["x", 2.5], [2.5, "x"]])
@pytest.mark.parametrize(
    ("op", "call"), [("Add", "Adds"), ("Mul", "Muls"), ("Maximum", "Maxs"), ("Minimum", "Mins")]
)
def test_constant_on_either_side_becomes_the_scalar_form(legal, op, call, operands):
    nodes = legal(X, [("z", op, operands)], ["z"])
    assert ops(nodes) == [call]
    assert scalars(nodes) == [2.5]


def test_subtracted_constant_is_added_negated(legal):
    nodes = legal(X, [("z", "Sub", ["x", 2.5])], ["z"])
    assert ops(nodes) == ["Adds"]
    assert scalars(nodes) == [-2.5]


def test_constant_minus_tensor(legal):
    nodes = legal(X, [("z", "Sub", [2.5, "x"])], ["z"])
    assert sorted(ops(nodes)) == ["Adds", "Muls"]
    assert sorted(scalars(nodes)) == [-1, 2.5]


@pytest.mark.parametrize(
    ("divisor", "expected"),
    [(4.0, ["Muls"]), (-0.5, ["Muls"]), (3.0, ["Duplicate", "Div"]), (0.0, ["Duplicate", "Div"])],
)
def test_only_division_by_a_power_of_two_is_a_product(legal, divisor, expected):
    assert ops(legal(X, [("z", "Div", ["x", divisor])], ["z"])) == expected


@pytest.mark.parametrize("divisor", [math.inf, math.nan])
def test_division_by_a_number_that_is_not_finite(legal, divisor):
    assert ops(legal(X, [("z", "Div", ["x", divisor])], ["z"])) == ["Duplicate", "Div"]


@pytest.mark.parametrize(
    ("mode", "swapped", "op"),
    [("LT", "GT", "Less"), ("GE", "LE", "GreaterEqual"), ("EQ", "EQ", "Equal")],
)
def test_compare_with_a_constant(legal, mode, swapped, op):
    right = legal(X, [("z", op, ["x", 1.0])], ["z"])
    left = legal(X, [("z", op, [1.0, "x"])], ["z"])
    assert next(n for n in right.values() if n.op == "CompareScalar").attrs["mode"] == mode
    assert next(n for n in left.values() if n.op == "CompareScalar").attrs["mode"] == swapped


def test_stored_truth_value_becomes_bytes(legal):
    nodes = legal(XY, [("z", "Less", ["x", "y"])], ["z"])
    assert ops(nodes) == ["Compare", "Duplicate", "SelectMask", "Cast"]
    store = next(n for n in nodes.values() if n.op == "Store")
    assert nodes[store.inputs[0]].y.dtype.name == "bool"


def test_loaded_truth_value_becomes_a_mask(legal):
    graph = ({"c": ("bool", [64]), **XY}, [("z", "Select", ["c", "x", "y"])], ["z"])
    nodes = legal(*graph)
    assert sorted(ops(nodes)) == ["Cast", "CompareScalar", "SelectMask"]
    select = next(n for n in nodes.values() if n.op == "SelectMask")
    assert nodes[select.inputs[0]].y.dtype.name == "mask"


def test_select_with_a_constant_first_turns_the_condition_round(legal):
    graph = (XY, [("c", "Less", ["x", "y"]), ("z", "Select", ["c", 0.0, "y"])], ["z"])
    nodes = legal(*graph)
    assert sorted(ops(nodes)) == ["Compare", "MaskNot", "SelectMask"]
    select = next(n for n in nodes.values() if n.op == "SelectMask")
    assert nodes[select.inputs[2]].op == "Scalar"


@pytest.mark.parametrize("op", ["Sigmoid", "Rsqrt", "Square", "Neg", "Exp", "Floor"])
def test_bfloat16_is_computed_in_float32_without_rounding_between(legal, op):
    nodes = legal({"x": ("bfloat16", [64])}, [("z", op, ["x"])], ["z"])
    casts = [n for n in nodes.values() if n.op == "Cast" and n.y.dtype.name == "bfloat16"]
    assert len(casts) == 1
    inside = [n for n in nodes.values() if n.op not in ("Load", "Store", "Scalar", "Cast")]
    assert all(n.y.dtype.name == "float32" for n in inside)


def test_a_chain_of_bfloat16_ops_rounds_once(legal):
    steps = [("a", "Exp", ["x"]), ("b", "Tan", ["a"]), ("c", "Mul", ["b", "a"])]
    nodes = legal({"x": ("bfloat16", [64])}, steps, ["c"])
    casts = [
        n.y.dtype.name for n in nodes.values() if n.op == "Cast" and "bfloat16" in _ends(n, nodes)
    ]
    assert casts == ["float32", "bfloat16"]


def test_a_cast_that_the_graph_asks_for_rounds(legal):
    steps = [("a", "Exp", ["x"]), ("b", "Cast", ["a"], {"dtype": "float32"}), ("c", "Sqrt", ["b"])]
    nodes = legal({"x": ("bfloat16", [64])}, steps, ["c"])
    casts = [n.y.dtype.name for n in nodes.values() if n.op == "Cast"]
    assert casts == ["float32", "bfloat16", "float32"]


def _ends(n, nodes):
    return n.y.dtype.name, nodes[n.inputs[0]].y.dtype.name


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", [r.name for r in all_ops() if r.short and not r.call])
def test_of_16_bits_a_composition_has_fewer_calls(legal, op, dtype):
    def calls(dtype):
        nodes = ops(legal({"x": (dtype, [64])}, [("z", op, ["x"])], ["z"]))
        return len([n for n in nodes if n != "Cast"])

    assert 1.4 * calls(dtype) <= calls("float32")


def test_what_the_graph_casts_to_float32_is_exact_to_float32(legal):
    inside = [("w", "Cast", ["x"], {"dtype": "float32"}), ("y", "Gelu", ["w"])]
    nodes = ops(legal({"x": ("float16", [64])}, inside, ["y"]))
    assert len(nodes) > 1.4 * len(
        ops(legal({"x": ("float16", [64])}, [("y", "Gelu", ["x"])], ["y"]))
    )


def test_integers_narrow_without_the_clamp_of_the_chip(legal):
    nodes = legal({"x": ("int32", [64])}, [("z", "Cast", ["x"], {"dtype": "int16"})], ["z"])
    assert ops(nodes) == ["Shl", "Sar", "Cast"]


def test_a_chain_of_64_bit_sums_is_taken_apart_once(legal):
    steps = [("a", "Add", ["x", "y"]), ("b", "Sub", ["a", "x"])]
    nodes = legal({"x": ("int64", [64]), "y": ("int64", [64])}, steps, ["b"])
    assert ops(nodes).count("Join") == 1
    assert ops(nodes).count("Low") == 2


@pytest.mark.parametrize("op", ["Floor", "Ceil", "Round", "Trunc"])
def test_rounding_is_a_cast_to_the_same_type(legal, op):
    nodes = legal(X, [("z", op, ["x"])], ["z"])
    mode = {"Floor": "FLOOR", "Ceil": "CEIL", "Round": "RINT", "Trunc": "TRUNC"}[op]
    assert [n.attrs["round"] for n in nodes.values() if n.op == "Cast"] == [mode]


def test_float_to_a_narrow_integer_never_rounds_up_on_the_way(legal):
    nodes = legal(X, [("z", "Cast", ["x"], {"dtype": "int8"})], ["z"])
    casts = [(n.y.dtype.name, n.attrs["round"]) for n in nodes.values() if n.op == "Cast"]
    assert casts == [("float16", "TRUNC"), ("int8", "TRUNC")]


@pytest.mark.parametrize("mode", ["FLOOR", "CEIL", "TRUNC"])
@pytest.mark.parametrize("source", ["bfloat16", "float16"])
def test_wider_float_on_the_way_to_an_integer_does_not_round(legal, source, mode):
    x = {"x": (source, [64])}
    nodes = legal(x, [("z", "Cast", ["x"], {"dtype": "int64", "round": mode})], ["z"])
    casts = [(n.y.dtype.name, n.attrs["round"]) for n in nodes.values() if n.op == "Cast"]
    assert casts[0] == ("float32", "NONE")
    assert casts[-1] == ("int64", mode)


def test_float_to_bool_compares_with_zero(legal):
    nodes = legal(X, [("z", "Cast", ["x"], {"dtype": "bool"})], ["z"])
    assert ops(nodes)[0] == "CompareScalar"


def test_equal_expressions_are_made_once(legal):
    nodes = legal(X, [("a", "Div", ["x", 3.0]), ("b", "Div", ["a", 3.0])], ["a", "b"])
    assert ops(nodes).count("Duplicate") == 1


@pytest.mark.parametrize(("x", "count"), [(1, 0), (2, 1), (3, 2)])
def test_power_with_a_small_exponent(legal, x, count):
    nodes = legal(X, [("z", "Pow", ["x", float(x)])], ["z"])
    assert ops(nodes).count("Mul") == count
    assert "Pow" not in ops(nodes)


def test_run_time_scalar_is_an_operand_and_not_filled(legal):
    nodes = legal({**X, "s": ("float32", [1])}, [("z", "Mul", ["x", "s"])], ["z"])
    assert ops(nodes) == ["Muls"]


def test_group_of_one_element_uses_tensor_calls(legal):
    one = {"x": ("float32", [1]), "y": ("float32", [1])}
    assert ops(legal(one, [("z", "Sub", ["x", "y"])], ["z"])) == ["Sub"]


def test_uniform_output_is_filled(legal):
    nodes = legal(
        {**X, "s": ("float32", [])},
        [("a", "Abs", ["s"]), ("b", "Broadcast", ["a"], {"shape": [64]}), ("z", "Neg", ["x"])],
        ["b", "z"],
    )
    assert "Duplicate" in ops(nodes)


def test_unavailable_op_names_the_node_and_the_chip(legal):
    with pytest.raises(AutofuseError) as caught:
        legal({"x": ("float32", [8])}, [("z", "LegendrePolynomialP", ["x", "x"])], ["z"])
    (found,) = caught.value.diagnostics
    assert found.code == "AF3001"
    assert "float32" in found.message
    assert "ascend910b1" in found.message
    assert found.where.node == "legendrepolynomialp_z"


def test_310p_refuses_bfloat16(legal):
    with pytest.raises(AutofuseError, match="AF3001"):
        legal({"x": ("bfloat16", [64])}, [("z", "Exp", ["x"])], ["z"], chip="ascend310p")


@pytest.mark.parametrize(
    "op", ["Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"]
)
@pytest.mark.parametrize("dtype", ["int32", "uint32"])
@pytest.mark.parametrize("chip", ["ascend310p", "ascend910b1"])
def test_310p_compares_floats_only(legal, op, dtype, chip):
    nodes = legal(
        {"x": (dtype, [64]), "y": (dtype, [64])}, [("z", op, ["x", "y"])], ["z"], chip=chip
    )
    compared = {
        nodes[n.inputs[0]].y.dtype.name for n in nodes.values() if n.op.startswith("Compare")
    }
    # The mask becomes a bool by way of float16 values, not by a comparison.
    assert compared == ({"float32"} if chip == "ascend310p" else {"int32"})


def test_input_survives_as_it_is(legal):
    nodes = legal(X, [], ["x"])
    assert [n.op for n in nodes.values()] == ["Load", "Store"]


def casts(nodes):
    dtype = {n.name: n.y.dtype.name for n in nodes.values()}
    return [
        (dtype[n.inputs[0]], n.y.dtype.name, n.attrs["round"])
        for n in nodes.values()
        if n.op == "Cast"
    ]


@pytest.mark.parametrize(
    ("have", "to", "mode", "want"),
    [
        ("float32", "float16", "", [("float32", "float16", "NONE")]),
        ("int32", "float32", "", [("int32", "float32", "NONE")]),
        ("float32", "int32", "FLOOR", [("float32", "int32", "FLOOR")]),
        ("float16", "int8", "RINT", [("float16", "int8", "NONE")]),
    ],
)
def test_310p_takes_the_round_mode_that_it_has(legal, have, to, mode, want):
    attrs = {"dtype": to} | ({"round": mode} if mode else {})
    nodes = legal({"x": (have, [64])}, [("z", "Cast", ["x"], attrs)], ["z"], chip="ascend310p")
    made = casts(nodes)
    assert all(c in load_target("ascend310p").arch.modes for c in made)
    # An int8 of a float16 may be rounded in float32 first, which is exact as well.
    assert made[-1:] == want or mode == "RINT"


@pytest.mark.parametrize("op", ["Floor", "Ceil", "Round", "Trunc"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_310p_rounds_to_whole_numbers_by_way_of_int32(legal, op, dtype):
    nodes = legal({"x": (dtype, [64])}, [("z", op, ["x"])], ["z"], chip="ascend310p")
    arch = load_target("ascend310p").arch
    assert casts(nodes)
    assert all(c in arch.modes for c in casts(nodes))


@pytest.mark.parametrize("op", ["LShift", "RShift"])
def test_310p_refuses_shifts(legal, op):
    with pytest.raises(AutofuseError, match="not available on"):
        legal({"x": ("int32", [64])}, [("z", op, ["x", 3])], ["z"], chip="ascend310p")


M = {"m": ("bool", [64, 8]), "x": ("float32", [64, 8])}


@pytest.mark.parametrize(
    ("nodes", "calls"),
    [
        # The byte of a bool that comes from outside may be any but 0: the number that it counts as is 1.
        ([("z", "Cast", ["m"], {"dtype": "float16"})], ["Cast", "Mins"]),
        ([("z", "Cast", ["m"], {"dtype": "float32"})], ["Cast", "Mins", "Cast"]),
        ([("z", "Cast", ["m"], {"dtype": "uint8"})], ["Cast", "Mins", "Cast", "Reinterpret"]),
        ([("z", "Reshape", ["m"], {"shape": [8, 64]})], ["Cast", "Mins", "Cast"]),
        # A comparison with 0 takes any byte.
        ([("z", "Select", ["m", "x", 0.0])], ["Cast", "CompareScalar", "SelectMask"]),
        (
            [("z", "LogicalNot", ["m"])],
            ["Cast", "CompareScalar", "MaskNot", "Duplicate", "SelectMask", "Cast"],
        ),
        (
            [("z", "ReduceAny", ["m"], {"axes": (1,)})],
            ["Cast", "ReduceMax", "CompareScalar", "Duplicate", "SelectMask", "Cast"],
        ),
        # The kernel computes 0 or 1.
        (
            [("t", "Greater", ["x", 0.0]), ("z", "Cast", ["t"], {"dtype": "float32"})],
            ["CompareScalar", "Duplicate", "SelectMask"],
        ),
    ],
)
def test_a_bool_from_outside_is_any_byte_but_zero(legal, nodes, calls):
    used = {x for n in nodes for x in n[2] if isinstance(x, str)}
    inputs = {name: t for name, t in M.items() if name in used}
    assert sorted(ops(legal(inputs, nodes, ["z"]))) == sorted(calls)


@pytest.mark.parametrize("outputs", [("o", "z"), ("z", "o")])
def test_a_tensor_is_loaded_before_it_is_overwritten(outputs):
    """What overwrites ``x`` needs nothing of it, and would be stored first: its operand is there already."""
    shape = [64, 1000]
    ends = {"o": {"name": "o", "tensor": "a", "inout": "x"}, "z": "z"}
    built = api.build(
        {
            "schema": "autofuse.graph/1",
            "name": "k",
            "inputs": [{"name": n, "dtype": "float32", "shape": shape} for n in "xy"],
            "nodes": [
                {"name": "exp", "op": "Exp", "inputs": ["y"], "outputs": ["a"]},
                {"name": "mul", "op": "Mul", "inputs": ["x", "y"], "outputs": ["z"]},
            ],
            "outputs": [ends[o] for o in outputs],
        },
        verify_ir=True,
    )
    (impl,) = (i for r in built.schedule for g in r.groups for i in g.impls)
    calls = [n for n in impl.nodes if n.op in ("Load", "Store")]
    data = {n.name: n.attrs["index"] for n in impl.nodes if n.op == "Data"}
    (load,) = (k for k, n in enumerate(calls) if n.op == "Load" and data[n.inputs[0]] == 0)
    over = outputs.index("o")
    stores = [k for k, n in enumerate(calls) if n.op == "Store"]
    written = {n.inputs[0]: n.attrs["index"] for n in impl.nodes if n.op == "Output"}
    (store,) = (k for k in stores if written[calls[k].name] == over)
    assert load < store
