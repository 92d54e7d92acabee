"""Groups with reductions: which templates there are, and where nodes run."""

from __future__ import annotations

from typing import Any

import pytest
from ir_text_parser import parse_as

from autofuse import api
from autofuse.implgraph.check.verify import check
from autofuse.implgraph.expr.expression import CeilDiv, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.graph import Condition, ImplGraph
from autofuse.implgraph.ir.printer import print_graph
from autofuse.implgraph.ir.serialise import from_json_as, to_json
from autofuse.schedule import rank, scheduler
from autofuse.schedule.functions.scratch import reduce_inner_bytes, reduce_outer_bytes
from autofuse.schedule.placement.reduce_steps import reduce_runs
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")
ARCH = CHIP.arch
SINGLE, HALF, WORD = BY_NAME["float32"], BY_NAME["float16"], BY_NAME["int32"]


@pytest.fixture(autouse=True)
def _all_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dominated templates are of interest here."""
    monkeypatch.setattr(rank, "needed", lambda times, *_: range(len(times)))


def graph(
    shape: list[Any], nodes: list[tuple[Any, ...]], outputs: list[Any], **symbols: Any
) -> dict[str, Any]:
    return {
        "schema": "autofuse.graph/1",
        "name": "k",
        "symbols": symbols,
        "inputs": [{"name": "x", "dtype": "float32", "shape": shape}],
        "nodes": [
            {
                "name": name,
                "op": op,
                "inputs": [x if isinstance(x, str) else {"const": x} for x in xs],
                "outputs": [name],
                "attrs": attrs[0] if attrs else {},
            }
            for name, op, xs, *attrs in nodes
        ],
        "outputs": outputs,
    }


def templates(document: dict[str, Any], ub: int | None = None) -> dict[str, ImplGraph]:
    """Template name without the graph -> template."""
    target = CHIP if ub is None else CHIP.with_ub(ub)
    (result,) = scheduler.schedule(api.hint_of(document), target)
    found = {i.name.removeprefix("k_0_"): i for g in result.groups for i in g.impls}
    for impl in found.values():
        check(impl)
        assert parse_as(ImplGraph, print_graph(impl)) == impl
        assert from_json_as(ImplGraph, to_json(impl)) == impl
    return found


def total(shape: list[Any], axes: list[int], **symbols: Any) -> dict[str, ImplGraph]:
    nodes = [("y", "Exp", ["x"]), ("s", "ReduceSum", ["y"], {"axes": axes})]
    return templates(graph(shape, nodes, ["s"], **symbols))


def softmax(shape: list[Any], axis: int, **symbols: Any) -> dict[str, ImplGraph]:
    return templates(graph(shape, [("y", "Softmax", ["x"], {"axis": axis})], ["y"], **symbols))


@pytest.mark.parametrize(
    ("shape", "axes", "names"),
    [
        ([40, 33], [1], {"reduce_all_0_nil_0_nil", "reduce_0_nil_0_2"}),
        ([40, 33], [0], {"reduce_all_0_nil_1_nil", "reduce_0_nil_1_0", "reduce_0_nil_2_3"}),
        ([4, 5, 33], [1], {"reduce_all_0_nil_0_nil", "reduce_all_0_nil_2_nil"}),
        ([4, 5, 33], [0, 2], {"reduce_all_0_nil_1_nil", "reduce_0_nil_1_5"}),
    ],
)
def test_templates_of_a_sum(shape, axes, names):
    assert names <= total(shape, axes).keys()


def test_all_load_reads_once_and_has_no_reduce_loop():
    impl = softmax([40, 33], 1)["reduce_all_0_nil_0_nil"]
    assert [n.op for n in impl.nodes].count("Load") == 1
    assert impl.r_axis is None
    assert {n.loop_pass for n in impl.nodes} == {0}


def passes(impl: ImplGraph) -> list[int]:
    """The passes of the Loads."""
    return [n.loop_pass for n in impl.nodes if n.op == "Load" and n.loop_axis == impl.r_axis]


def test_softmax_goes_through_its_rows_twice():
    impl = softmax([40, 33], 1)["reduce_0_nil_0_2"]
    assert passes(impl) == [0, 1]
    store = next(n for n in impl.nodes if n.op == "Store")
    assert (store.loop_axis, store.loop_pass) == (impl.r_axis, 1)
    joins = [n for n in impl.nodes if n.joins is not None]
    # The maximum, its last place, and the sum that is multiplied whenever it moves.
    assert [(n.op, n.loop_pass) for n in joins] == [("Maximum", 0), ("UbCopy", 0), ("Add", 0)]
    named = impl.by_name()
    scaled = named[joins[2].inputs[0]]
    assert (scaled.op, scaled.inputs[0]) == ("Mul", joins[2].joins)
    queues = {n.y.que.id for n in impl.nodes if n.op == "Load" and n.y.que is not None}
    assert len(queues) == 1, "loads of different passes take turns in one queue"


MEAN = ("m", "ReduceMean", ["x"], {"axes": [1], "keepdims": True})
VARIANCE = [
    MEAN,
    ("d", "Sub", ["x", "m"]),
    ("q", "Mul", ["d", "d"]),
    ("v", "ReduceMean", ["q"], {"axes": [1], "keepdims": True}),
]


def test_a_variance_takes_one_pass_and_a_layer_norm_two():
    impl = templates(graph([40, 33], VARIANCE, ["v"]))["reduce_0_nil_0_2"]
    assert passes(impl) == [0]
    counts = [n.attrs["count"] for n in impl.nodes if n.attrs.get("count")]
    assert sorted(counts) == ["after", "before"]
    # The mean of the whole row is of no use behind the loop, nor is what it would be broadcast to.
    outside = [n.op for n in impl.nodes if n.loop_axis is not None and n.loop_axis != impl.r_axis]
    assert outside.count("Div") == 1
    assert "Broadcast" not in outside
    norm = [*VARIANCE, ("a", "Add", ["v", 1e-5]), ("r", "Rsqrt", ["a"]), ("y", "Mul", ["d", "r"])]
    assert passes(templates(graph([40, 33], norm, ["y"]))["reduce_0_nil_0_2"]) == [0, 1]


def test_what_no_rule_covers_waits_for_the_next_pass():
    nodes = [
        MEAN,
        ("d", "Sub", ["x", "m"]),
        ("q", "Abs", ["d"]),
        ("v", "ReduceSum", ["q"], {"axes": [1]}),
    ]
    assert passes(templates(graph([40, 33], nodes, ["v"]))["reduce_0_nil_0_2"]) == [0, 1]


def test_a_sum_that_needs_a_sum_that_follows_waits_for_it():
    nodes = [
        ("p", "Softmax", ["x"], {"axis": 1}),
        ("q", "Mul", ["p", "p"]),
        ("v", "ReduceSum", ["q"], {"axes": [1]}),
    ]
    impl = templates(graph([40, 33], nodes, ["v"]))["reduce_0_nil_0_2"]
    assert passes(impl) == [0, 1]


@pytest.mark.parametrize(
    ("columns", "buffers", "shared"), [(9000, 2, False), (20000, 2, True), (40000, 1, True)]
)
def test_long_rows_share_the_buffers_of_loads_and_results(columns, buffers, shared):
    impl = softmax([40, columns], 1)["reduce_all_0_nil_0_nil"]
    queues = [b for b in impl.buffers if b.kind == "queue"]
    assert {b.buf_num for b in queues} == {buffers}
    assert [b.copy for b in queues] == ([True] if shared else [False, False])
    if shared:
        # What is loaded, what it becomes step by step, and the result take turns.
        assert len(queues[0].tensors) == 4
        over = [n.over for n in impl.nodes if n.over is not None]
        assert over == [queues[0].tensors[0]] * 3


def test_rows_of_which_two_do_not_fit_are_not_kept():
    assert softmax([40, 44000], 1).keys() == {"reduce_0_nil_0_2"}


def test_rows_of_unknown_length_have_a_template_with_fewer_buffers():
    found = softmax(["s0", "s1"], 1, s0={"max": 99}, s1={"max": 99999})
    tight = found["reduce_all_0_nil_0_nil_tight"]
    plain = found["reduce_all_0_nil_0_nil"]
    sizes = {"s0": 9, "s1": 20000, tight.tiling.opened.symbol: 1}
    assert (
        tight.tiling.ub.evaluate(sizes) <= tight.tiling.ub_limit < plain.tiling.ub.evaluate(sizes)
    )
    (long,) = [c for c in tight.tiling.conditions if c not in plain.tiling.conditions]
    assert [long.holds({"s1": n}) for n in (1000, 9000, 10000, 20000)] == [False, False, True, True]
    short = softmax(["s0", "s1"], 1, s0={"max": 99}, s1={"max": 999})
    assert "reduce_all_0_nil_0_nil_tight" not in short


def test_an_accumulator_shares_the_buffer_of_its_initial_value():
    impl = total([40, 33], [1])["reduce_0_nil_0_2"]
    named = impl.by_name()
    join = next(n for n in impl.nodes if n.joins is not None)
    first = named[join.inputs[0]]
    assert first.op == "Duplicate"
    assert named[first.inputs[0]].attrs["value"] == 0
    assert first.y.buf == join.y.buf is not None
    assert (first.loop_axis, join.loop_axis) == (impl.nodes[-2].loop_axis, impl.r_axis)


def test_a_row_that_everything_is_reduced_to_belongs_to_one_core():
    impl = total([40, 33], [0, 1])["reduce_0_nil_3_4"]
    assert impl.axes[impl.y_axis].name == "unit"
    assert (impl.tiling.outer, impl.tiling.reduce_tiles) == (1, True)


def test_what_only_the_end_needs_is_loaded_behind_the_reduce_loop():
    document = graph(
        [40, 33],
        [("s", "ReduceSum", ["x"], {"axes": [1]}), ("y", "Add", ["s", "b"])],
        ["y"],
    )
    document["inputs"].append({"name": "b", "dtype": "float32", "shape": [40]})
    names = [n.name for n in templates(document)["reduce_0_nil_0_2"].nodes]
    assert names.index("gather_1") > names.index("s")


def test_the_tile_of_a_column_sum_is_a_multiple_of_32_bytes():
    spec = total([40, 33], [0])["reduce_all_0_nil_1_nil"].tiling
    assert (spec.opened.granule, spec.opened.rounded, spec.opened.longest) == (8, True, 40)


def test_tiles_of_a_reduced_axis_are_not_shared_by_the_cores():
    spec = total(["s0", "s1"], [1], s0={"max": 9}, s1={"max": 99})["reduce_0_nil_0_2"].tiling
    assert spec.tiles == sym("s0")
    assert spec.reduce_steps == CeilDiv(sym("s1"), sym("z1t_size"))


def test_all_load_needs_something_to_reduce():
    found = total(["s0", "s1"], [1], s0={"max": 9}, s1={"min": 0, "max": 99})
    assert Condition(sym("s1"), at_least=1) in found["reduce_all_0_nil_0_nil"].tiling.conditions
    assert found["reduce_0_nil_0_2"].tiling.conditions == ()


def test_rows_that_fit_no_tile_are_left_to_the_loop():
    assert softmax([7, 70000], 1).keys() == {"reduce_0_nil_0_2"}


def test_overwritten_input_is_stored_in_its_last_pass():
    document = graph(
        [40, 33],
        [
            ("e", "Exp", ["x"]),
            ("s", "ReduceSum", ["x"], {"axes": [1], "keepdims": True}),
            ("d", "Div", ["x", "s"]),
        ],
        [{"name": "o", "tensor": "e", "inout": "x"}, "d"],
    )
    impl = templates(document)["reduce_0_nil_0_2"]
    assert {n.loop_pass for n in impl.nodes if n.op == "Store"} == {1}


@pytest.mark.parametrize(
    ("axes", "gone", "dense", "runs"),
    [
        ((1, 2), {2}, {2}, [(2,)]),
        ((1, 2, 3), {2, 3}, {2, 3}, [(2, 3)]),
        ((1, 2, 3), {2, 3}, set(), [(3,), (2,)]),
        ((1, 2, 3), {1, 3}, {1, 2, 3}, [(3,), (1,)]),
    ],
)
def test_runs_of_reduced_axes(axes, gone, dense, runs):
    assert reduce_runs(axes, gone, dense) == runs


@pytest.mark.parametrize(
    ("axes", "gone", "runs"),
    [
        ((1, 2, 3, 4), {2, 4}, [(2,), (4,)]),
        # One row starts where the buffer does.
        ((2, 3, 4), {2, 4}, [(4,), (2,)]),
        ((1, 2, 3), {1, 2}, [(1, 2)]),
    ],
)
def test_rows_without_padding_are_left_by_the_last_step(axes, gone, runs):
    assert reduce_runs(axes, gone, {1, 2, 3, 4}, bare={3}) == runs


def test_scratch_space():
    assert reduce_inner_bytes("ReduceSum", SINGLE, const(4), const(50), const(56), ARCH) == 4 * 32
    assert reduce_inner_bytes("ReduceSum", SINGLE, const(4), const(100), const(104), ARCH) == 4 * 96
    assert reduce_inner_bytes("ReduceSum", HALF, const(4), const(50), const(64), ARCH) == 32
    assert reduce_inner_bytes("ReduceMax", HALF, const(4), const(200), const(208), ARCH) == 4 * 256
    assert (
        reduce_inner_bytes("ReduceProd", SINGLE, const(4), const(50), const(56), ARCH)
        == 4 * 224 + 512
    )
    assert reduce_inner_bytes("ReduceSum", WORD, const(1), const(8), const(8), ARCH) == 32 + 512
    assert reduce_outer_bytes(SINGLE, const(2), const(8), const(16), ARCH) == 32
    assert reduce_outer_bytes(SINGLE, const(2), const(9), const(16), ARCH) == 2 * 2 * 16 * 4


def test_condition_in_words():
    assert Condition(sym("s"), 8, 1, 4095).text() == (
        "s is a multiple of 8 and is at least 1 and is at most 4095"
    )
    assert Condition(sym("s"), at_most=3).holds({"s": 3})
    assert not Condition(sym("s"), at_least=4).holds({"s": 3})
