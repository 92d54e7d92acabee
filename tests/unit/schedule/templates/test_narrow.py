"""The template of groups with short rows: when there is one, what it moves, and that it costs less."""

from __future__ import annotations

import pytest
from copied_rows import copied
from twin_graphs import every_template

from autofuse import api
from autofuse.codegen.verification import verify_schedule
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.tile_limits import sample_env
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import solve_template
from autofuse.schedule.templates import narrow
from autofuse.targets import load_target

LACES = {"Lace", "Unlace", "UnlaceByMask"}

CHIP = load_target("ascend910b1")


def scaled(rows, k, dtype="float32"):
    """``[rows, k]`` times a number per row."""
    return document({"x": (dtype, [rows, k]), "s": (dtype, [rows, 1])}, ("Mul", ["x", "s"], {}))


def document(inputs, node, symbols=()):
    op, operands, attrs = node
    made = {"name": "n", "op": op, "inputs": operands, "outputs": ["y"], "attrs": attrs}
    return {
        "schema": "autofuse.graph/1",
        "name": "g",
        "symbols": {s: {"min": 1, "max": 1 << 20} for s in symbols},
        "inputs": [{"name": n, "dtype": d, "shape": s} for n, (d, s) in inputs.items()],
        "nodes": [made],
        "outputs": ["y"],
    }


def impls(graph, target="ascend910b1") -> list[ImplGraph]:
    with every_template():
        built = api.build(graph, target=target, verify_ir=True)
    return [i for r in built.schedule for g in r.groups for i in g.impls]


def laced(graph) -> dict[str, ImplGraph]:
    return {i.suffix: i for i in impls(graph) if i.template == narrow.NAME}


def cost(impl: ImplGraph) -> int:
    found = solve_template(impl, Costs(CHIP), {})
    assert found is not None
    return found.cycles


@pytest.mark.parametrize("k", [2, 3, 4, 7])
def test_pairs_take_a_fraction_of_moving_their_rows(k):
    best, *others = sorted(impls(scaled(1 << 18, k)), key=cost)
    assert best.template == narrow.NAME
    assert all(cost(i) > 4 * cost(best) for i in others)


@pytest.mark.parametrize(("dtype", "most"), [("float32", 16), ("float16", 32), ("int8", 64)])
def test_rows_of_more_bytes_are_moved_as_they_are(dtype, most):
    op = ("Transpose", ["x"], {"perm": [0, 2, 1]})
    for k, proposed in ((most, True), (most + 1, False)):
        built = api.build(document({"x": (dtype, [3, k, 1000])}, op))
        names = {i.template for r in built.schedule for g in r.groups for i in g.impls}
        names |= {r.template.split(" ")[0] for r in built.schedule[0].rejected}
        assert any("narrow" in n for n in names) == proposed


@pytest.mark.parametrize(
    ("k", "load"), [(2, "UnlaceByMask"), (3, "Unlace"), (4, "UnlaceByMask"), (5, "Unlace")]
)
def test_what_turns_the_rows(k, load):
    (impl,) = laced(scaled(5000, k)).values()
    ops = [n.op for n in impl.nodes if n.op in LACES]
    assert ops == [load, "Lace"]
    tables = [n.op for n in impl.nodes if n.op.endswith("Offsets")]
    assert tables == ["PickOffsets", "LaceOffsets"][load == "UnlaceByMask" :]


def test_rows_of_a_tile_are_one_run():
    (impl,) = laced(scaled(5000, 3)).values()
    at = {**sample_env(impl), impl.tiling.opened.symbol: 64}
    moved = [copied(n, impl, CHIP, at) for n in impl.nodes if n.op in ("Load", "Store")]
    assert [m.rows for m in moved] == [1, 1, 1]


def test_tensors_that_lie_alike_share_a_table():
    nodes = {"x": ("float32", [5000, 3]), "z": ("float32", [5000, 3]), "s": ("float32", [5000, 1])}
    graph = document(nodes, ("Mul", ["x", "s"], {}))
    graph["nodes"].append(
        {"name": "m", "op": "Add", "inputs": ["y", "z"], "outputs": ["w"], "attrs": {}}
    )
    graph["outputs"] = ["w", "y"]
    (impl,) = laced(graph).values()
    assert sorted(n.op for n in impl.nodes if n.op in LACES) == ["Lace", "Lace", "Unlace", "Unlace"]
    assert [n.op for n in impl.nodes if n.op.endswith("Offsets")] == ["PickOffsets", "LaceOffsets"]


def test_the_length_of_long_rows_may_be_a_symbol_that_of_short_ones_not():
    def with_shape(rows, k):
        inputs = {"x": ("float32", [rows, k]), "s": ("float32", [rows, 1])}
        symbols = [s for s in (rows, k) if isinstance(s, str)]
        return document(inputs, ("Mul", ["x", "s"], {}), symbols)

    assert laced(with_shape("n", 2))
    assert not laced(with_shape(5000, "k"))


def test_reductions_along_short_rows_and_along_the_others():
    for axes in ([1], [0]):
        x = {"x": ("float32", [1000, 3])}
        assert laced(document(x, ("ReduceSum", ["x"], {"axes": axes})))


@pytest.mark.parametrize(
    "graph",
    [
        document({"x": ("float32", [5000, 2])}, ("Abs", ["x"], {})),  # one axis
        document(
            {"x": ("float32", [5000, 64]), "s": ("float32", [5000, 1])}, ("Mul", ["x", "s"], {})
        ),
        document({"x": ("int64", [3, 2, 5000])}, ("Transpose", ["x"], {"perm": [0, 2, 1]})),
        document({"x": ("float32", [5, 2]), "s": ("float32", [5, 1])}, ("Mul", ["x", "s"], {})),
    ],
)
def test_groups_without_such_rows_have_no_such_template(graph):
    assert not laced(graph)


def test_without_datacopypad_rows_are_not_known_to_be_whole_blocks():
    with pytest.raises(api.AutofuseError, match="moves whole blocks"):
        api.build(scaled(5000, 3), target="ascend310p")


def test_elements_that_lie_as_far_apart_as_they_do_in_ub_are_still_rows_of_a_command():
    """One column of eight: a DMA command moves at most 4,095 rows, and each element is one."""
    graph = document(
        {"x": ("float32", [100_000, 1]), "r": ("float32", [100_000, 7])},
        ("Concat", ["x", "r"], {"axis": 1}),
    )
    built = api.build(graph, verify_ir=True)
    assert verify_schedule(built.graph, built.schedule, built.target) == []


def test_short_rows_of_what_long_ones_have_in_common_are_dense():
    """A pair for each of 900 rows, and one for each of 64 columns: both are loaded as one run."""
    inputs = {"x": ("float32", [900, 1, 2]), "z": ("float32", [64, 2])}
    impl = laced(document(inputs, ("Sub", ["x", "z"], {})))["outer"]
    env = {**sample_env(impl), impl.tiling.opened.symbol: 8}
    loads = [n for n in impl.nodes if n.op == "Load"]
    assert [copied(n, impl, CHIP, env).rows for n in loads] == [1, 1]


def test_long_rows_load_what_they_have_in_common_once():
    inputs = {n: ("float32", [8192, 1]) for n in "zw"} | {"x": ("float32", [64, 8192, 2])}
    graph = document(inputs, ("Mul", ["x", "z"], {}))
    graph["nodes"].append(
        {"name": "m", "op": "Add", "inputs": ["y", "w"], "outputs": ["v"], "attrs": {}}
    )
    graph["outputs"] = ["v"]
    best, *others = sorted(impls(graph), key=cost)
    assert (best.template, best.suffix) == (narrow.NAME, "rows_32")
    assert cost(others[0]) > 1.1 * cost(best)
    loops = [n.loop_axis == best.r_axis for n in best.nodes if n.op == "Load"]
    assert sorted(loops) == [False, False, True]


def test_reductions_have_no_loop_over_rows_with_something_in_common():
    inputs = {"x": ("float32", [64, 8192, 2])}
    graph = document(inputs, ("ReduceSum", ["x"], {"axes": [2]}))
    assert "rows_32" not in laced(graph)


def pairs_with_pairs(rows, columns):
    inputs = {"x": ("float32", [32, rows, 1, 2]), "z": ("float32", [32, 1, columns, 2])}
    symbols = [s for s in (rows, columns) if isinstance(s, str)]
    return document(inputs, ("Maximum", ["x", "z"], {}), symbols)


def test_runs_that_are_no_whole_blocks_are_rows_of_one_command():
    """Of 50 pairs: 400 bytes in GM, where they lie side by side, and the padding of their long rows in UB."""
    impl = laced(pairs_with_pairs(507, 50))["outer"]
    env = {**sample_env(impl), impl.tiling.opened.symbol: 8}
    store = next(n for n in impl.nodes if n.op == "Store")
    assert copied(store, impl, CHIP, env) == (8, 1, 8 * 100)
    assert store.y.vectorized_strides[0] == 56 * 2


@pytest.mark.parametrize("columns", [48, 50, 51])
def test_a_tile_of_several_runs_takes_a_fraction_of_one_run_for_each(columns):
    found = laced(pairs_with_pairs(507, columns))
    assert cost(found["outer"]) < 0.4 * cost(found[""])


@pytest.mark.parametrize(("rows", "columns"), [("p", 50), (507, "m")])
def test_runs_of_a_length_that_is_a_symbol_have_the_padding_of_long_rows(rows, columns):
    assert "outer" in laced(pairs_with_pairs(rows, columns))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float16"])
@pytest.mark.parametrize("rows", [15, 17])
def test_long_rows_that_are_padded_for_another_tensor_are_none_of_a_run(dtype, rows):
    """``s`` has its rows along the axis around the long ones, which has their padding in UB then; it is proved."""
    of = {"x": [999, 1, 36, 2], "s": [999, rows, 1, 1], "c": [1, 1, 36, 1]}
    nodes = [("n0", "Maximum", ["x", "s"], "a"), ("n1", "Mul", ["a", "c"], "y")]
    graph = {
        "schema": "autofuse.graph/1",
        "name": "g",
        "inputs": [{"name": n, "dtype": dtype, "shape": shape} for n, shape in of.items()],
        "nodes": [
            {"name": n, "op": op, "inputs": x, "outputs": [y], "attrs": {}} for n, op, x, y in nodes
        ],
        "outputs": ["y"],
    }
    assert laced(graph)


def test_a_tile_has_all_of_a_few_long_rows_and_more_of_those_around_them():
    """Pixels twice along both axes."""
    twice = ("Broadcast", ["x"], {"shape": [8192, 2, 32, 2]})
    found = laced(document({"x": ("float32", [8192, 1, 32, 1])}, twice))
    assert {"outer", "outer_2"} <= set(found)
    assert cost(found["outer_2"]) < 0.7 * cost(found["outer"])


def test_a_tile_has_several_pairs_of_rows_that_are_reduced():
    """The largest of two by two pixels."""
    pool = ("ReduceMax", ["x"], {"axes": [1, 3]})
    found = laced(document({"x": ("float32", [8192, 2, 28, 2])}, pool))
    assert cost(found["outer"]) < 0.5 * cost(found[""])
