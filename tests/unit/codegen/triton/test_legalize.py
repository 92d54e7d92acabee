"""Which nodes legalisation for Triton makes: types that values are held in, names, order."""

import pytest

from autofuse import api
from autofuse.codegen.backends.triton.ops.spelling import TRITON, literal
from autofuse.codegen.nests.legalize import legalize, rounds_each_step
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.lowering.lowering import lower

F16, F32, BOOL = (BY_NAME[n] for n in ("float16", "float32", "bool"))
MOVED = ("Data", "Output", "Load", "Store", "Scalar", "Broadcast", "ReduceSum", "Scan")


def hint(nodes, outputs, dtype="float16", shape=(60,), **inputs):
    """The HintGraph of rows (name, op, inputs, attributes); the result of each has its name and a ``_out``."""
    given = inputs or {"x": shape, "y": shape}
    return lower(
        api.read(
            {
                "schema": "autofuse.graph/1",
                "name": "g",
                "inputs": [{"name": x, "dtype": dtype, "shape": s} for x, s in given.items()],
                "nodes": [
                    {"name": n, "op": op, "inputs": xs, "outputs": [f"{n}_out"], "attrs": attrs}
                    for n, op, xs, attrs in nodes
                ],
                "outputs": [f"{n}_out" for n in outputs],
            }
        )
    )


def made(*args, **kw):
    return legalize(hint(*args, **kw).nodes, TRITON)


def ops(nodes, *kept):
    return [n.op for n in nodes if n.op not in MOVED or n.op in kept]


def check(nodes):
    """Names are unique, operands come first, and what computes has a spelling and no 16 bits."""
    seen = {}
    for n in nodes:
        assert n.name not in seen
        assert all(x in seen for x in n.inputs)
        seen[n.name] = n
        if n.op in MOVED:
            continue
        assert TRITON.spelled(n.op)
        kinds = [seen[x].y.dtype for x in n.inputs]
        if n.op not in ("Cast", "BitCast", "Select"):
            assert F16 not in (*kinds, n.y.dtype)
        TRITON.spell(n.op, [f"v{i}" for i in range(len(kinds))], n.attrs, kinds, n.y.dtype)


def test_a_chain_of_16_bits_is_rounded_where_it_ends():
    nodes = made([("a", "Add", ["x", "y"], {}), ("b", "Mul", ["a_out", "x"], {})], ["b"])
    check(nodes)
    assert ops(nodes) == ["Cast", "Cast", "Add", "Mul", "Cast"]
    assert [n.y.dtype for n in nodes if n.op == "Cast"] == [F32, F32, F16]


def test_a_cast_that_the_graph_asks_for_rounds():
    rows = [("a", "Cast", ["x"], {"dtype": "float16"}), ("b", "Add", ["a_out", "a_out"], {})]
    nodes = made(rows, ["b"], dtype="float32", x=(60,))
    check(nodes)
    assert [(n.op, n.y.dtype) for n in nodes if n.op in ("Cast", "Add")] == [
        ("Cast", F16),
        ("Cast", F32),
        ("Add", F32),
        ("Cast", F16),
    ]


def test_a_cast_from_16_bits_to_float32_moves_nothing():
    rows = [("a", "Add", ["x", "y"], {}), ("b", "Cast", ["a_out"], {"dtype": "float32"})]
    assert ops(made(rows, ["b"])) == ["Cast", "Cast", "Add"]


@pytest.mark.parametrize(
    "row",
    [
        ("a", "Identity", ["x"], {}),
        ("a", "Cast", ["x"], {"dtype": "float16"}),
        ("a", "Broadcast", ["x"], {"shape": [7, 60]}),
    ],
)
def test_what_is_only_moved_stays_in_16_bits(row):
    assert ops(made([row], ["a"])) == []


def test_a_choice_between_loads_stays_in_16_bits():
    rows = [("c", "Less", ["x", "y"], {}), ("s", "Select", ["c_out", "x", "y"], {})]
    nodes = made(rows, ["s"])
    check(nodes)
    (choice,) = (n for n in nodes if n.op == "Select")
    assert choice.y.dtype is F16


def test_a_row_is_converted_before_it_is_broadcast():
    nodes = made([("a", "Add", ["x", "w"], {})], ["a"], x=(7, 60), w=(60,))
    check(nodes)
    order = ops(nodes, "Broadcast")
    assert order.index("Cast") < order.index("Broadcast")
    (wide,) = (n for n in nodes if n.op == "Broadcast")
    assert wide.y.dtype is F32


def test_the_bits_of_a_value_are_those_of_the_rounded_one():
    rows = [("a", "Add", ["x", "y"], {}), ("b", "BitCast", ["a_out"], {"dtype": "int16"})]
    assert ops(made(rows, ["b"]))[-2:] == ["Cast", "BitCast"]


def test_reductions_run_in_float32():
    rows = [("a", "ReduceMax", ["x"], {"axes": [1]})]
    nodes = made(rows, ["a"], x=(7, 60))
    (reduction,) = (n for n in nodes if n.op == "ReduceMax")
    assert reduction.y.dtype is F32
    assert nodes[-1].op == "Output"
    assert [n.op for n in nodes][-3:-1] == ["Cast", "Store"]


def test_what_has_one_element_is_computed_once():
    rows = [("g", "Ndtr", ["w"], {}), ("a", "Add", ["x", "g_out"], {})]
    nodes = made(rows, ["a"], dtype="float32", x=(60,), w=(1,))
    check(nodes)
    one = [n for n in nodes if n.name.startswith("g_") and n.op != "Scalar"]
    assert len(one) > 10
    assert all(r == 1 for n in one for r in n.y.repeats)


def test_a_constant_result_is_spread_before_it_is_stored():
    rows = [("a", "LegendrePolynomialP", ["x", {"const": 0.0}], {})]
    nodes = made(rows, ["a"], dtype="float32", x=(60,))
    (store,) = (n for n in nodes if n.op == "Store")
    assert next(n for n in nodes if n.name == store.inputs[0]).op == "Broadcast"


def test_equal_parts_of_expansions_are_made_once():
    rows = [("a", "Ndtr", ["x"], {}), ("b", "Ndtr", ["x"], {}), ("c", "Sub", ["a_out", "x"], {})]
    nodes = made(rows, ["a", "b", "c"], dtype="float32")
    check(nodes)
    single = made([rows[0]], ["a"], dtype="float32")
    assert len(ops(nodes)) == len(ops(single)) + 1


def test_new_names_avoid_those_of_the_graph():
    rows = [("x_0", "Gelu", ["x"], {}), ("x_0_0", "Gelu", ["y"], {}), ("x_0_0_1", "Neg", ["y"], {})]
    nodes = made(rows, ["x_0", "x_0_0", "x_0_0_1"])
    check(nodes)
    given = {n.name: n.op for n in hint(rows, ["x_0", "x_0_0", "x_0_0_1"]).nodes}
    assert {n.name for n in nodes} > {x for x, op in given.items() if op != "Scalar"}


def test_what_nothing_uses_is_left_out():
    nodes = made([("a", "IsNan", ["x"], {})], ["a"])
    used = {x for n in nodes for x in n.inputs}
    assert all(n.name in used for n in nodes if n.op not in ("Data", "Output", "Store"))


def test_shifts_by_constants_need_no_function():
    rows = [
        ("a", "LShift", ["x", {"const": 3}], {}),
        ("b", "RShift", ["x", {"const": 31}], {}),
        ("c", "RShift", ["x", {"const": 32}], {}),
    ]
    assert ops(made(rows, list("abc"), dtype="int32", x=(60,))) == ["Shl", "Shr", "RShift"]


def test_powers_with_small_exponents_are_products():
    rows = [
        (f"p{i}", "Pow", ["x", {"const": c}], {}) for i, c in enumerate((1.0, 2.0, 3.0, -1.0, 0.5))
    ]
    nodes = made(rows, [r[0] for r in rows], dtype="float32", x=(60,))
    assert ops(nodes) == ["Mul", "Mul", "Div", "Pow"]


def test_quotients_are_exact_where_a_formula_needs_them():
    (exact,) = (
        {n.attrs.get("accuracy") for n in made([("a", op, ["x", "y"], {})], ["a"]) if n.op == "Div"}
        for op in ("TruncDiv",)
    )
    assert exact == {"exact"}
    plain = made([("a", "Div", ["x", "y"], {})], ["a"])
    assert all("accuracy" not in n.attrs for n in plain)


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        ("Fmod", "float32", True),
        ("Fmod", "int32", False),
        ("Mul", "float32", False),
        ("Maximum", "float32", False),
    ],
)
def test_which_kernels_round_each_step(op, dtype, expected):
    assert rounds_each_step(hint([("a", op, ["x", "y"], {})], ["a"], dtype).nodes) is expected


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, "float32", "0.1"),
        (-0.0, "float32", "(tl.full((), 0.0, tl.float32) * -1.0)"),
        (float("inf"), "float16", 'float("inf")'),
        (float("-inf"), "float32", 'float("-inf")'),
        (float("nan"), "float32", 'float("nan")'),
        (1e-45, "float32", "tl.full((), 1e-45, tl.float32)"),
        (1e39, "float32", 'float("inf")'),
        (-3.4028235e38, "float32", "-3.4028234663852886e+38"),
        (3, "float32", "3.0"),
        (3.0, "int8", "3"),
        (-(1 << 63), "int64", "-9223372036854775808"),
        ((1 << 64) - 1, "uint64", "18446744073709551615"),
        (1, "bool", "True"),
    ],
)
def test_literals(value, dtype, text):
    assert literal(value, BY_NAME[dtype]) == text


def test_numbers_alone_get_a_type():
    int8 = BY_NAME["int8"]
    assert TRITON.spell("Add", ["a", "1"], {}, [int8, int8], int8) == "a + 1"
    assert TRITON.spell("Add", ["2", "1"], {}, [int8, int8], int8).startswith(
        "tl.full((), 2, tl.int8)"
    )
    chosen = TRITON.spell("Select", ["c", "2", "1"], {}, [BOOL, int8, int8], int8)
    assert chosen == "tl.where(c, tl.full((), 2, tl.int8), tl.full((), 1, tl.int8))"
