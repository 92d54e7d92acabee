from dataclasses import replace
from typing import Any

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.check.verify import CHECKS, check, verify
from autofuse.implgraph.expr.expression import Ratio, const, sym
from autofuse.implgraph.ir.dtypes import dtype
from autofuse.implgraph.ir.fusion import Symbol
from autofuse.implgraph.ir.graph import (
    AllocType,
    AxisType,
    BufferKind,
    BufferPlan,
    Hardware,
    HintGraph,
    ImplGraph,
    Node,
    Position,
    Queue,
    TensorView,
    TmpBuffer,
)


def broken(g: HintGraph | ImplGraph) -> list[str]:
    """Names of the invariants that are broken, each once."""
    found = verify(g)
    assert all(d.code == "AF2002" for d in found)
    return list(dict.fromkeys(n.removeprefix("invariant ") for d in found for n in d.notes))


def with_node(g: Any, name: str, **fields: Any) -> Any:
    nodes = tuple(replace(n, **fields) if n.name == name else n for n in g.nodes)
    return replace(g, nodes=nodes)


def with_y(g: Any, name: str, **fields: Any) -> Any:
    y: TensorView = next(n.y for n in g.nodes if n.name == name)
    return with_node(g, name, y=replace(y, **fields))


def with_mem(g: Any, name: str, **fields: Any) -> Any:
    y: TensorView = next(n.y for n in g.nodes if n.name == name)
    assert y.mem is not None
    return with_y(g, name, mem=replace(y.mem, **fields))


def with_length(g: ImplGraph, **changed: Any) -> ImplGraph:
    return replace(g, tiling=replace(g.tiling, lengths=(replace(g.tiling.opened, **changed),)))


def with_axis(g: Any, index: int, **fields: Any) -> Any:
    axes = tuple(replace(a, **fields) if i == index else a for i, a in enumerate(g.axes))
    return replace(g, axes=axes)


def with_buffer(g: ImplGraph, index: int, **fields: Any) -> ImplGraph:
    buffers = tuple(replace(b, **fields) if i == index else b for i, b in enumerate(g.buffers))
    return replace(g, buffers=buffers)


def test_sound_graphs(abs_impl: ImplGraph, abs_hint: HintGraph):
    for g in (abs_impl, abs_hint):
        assert verify(g) == []
        check(g)


def test_every_check_has_a_name_and_an_explanation():
    assert len({c.__name__ for c in CHECKS}) == len(CHECKS)
    assert all(c.__doc__ for c in CHECKS)


def test_check_raises_all_findings(abs_hint: HintGraph):
    g = with_y(abs_hint, "abs_0", dtype=dtype("int8"))
    g = with_y(g, "Data_0", strides=(const(0), const(1)))
    with pytest.raises(AutofuseError) as err:
        check(g)
    assert {d.where.node for d in err.value.diagnostics} == {"Data_0", "abs_0", "store"}
    assert "the dtype is int8; Abs of float32 is float32" in str(err.value)


def with_new(g: Any, *new: Node, at: int = 2) -> Any:
    return replace(g, nodes=(*g.nodes[:at], *new, *g.nodes[at:]))


def with_reductions(g: HintGraph, *repeats: tuple[object, object]) -> HintGraph:
    """Reductions of the loaded tensor; stride 0 where the result does not vary."""
    y = g.node("gather_0").y
    for k, r in enumerate(repeats):
        steps = tuple(const(0) if x == 1 else s for x, s in zip(r, y.strides, strict=True))
        made = replace(y, repeats=tuple(r), strides=steps)
        g = with_new(g, Node(f"sum_{k}", "ReduceSum", ("gather_0",), made, axis=(0, 1)))
    return g


def with_scalar(g: HintGraph, **attrs: Any) -> HintGraph:
    y = replace(g.node("gather_0").y, repeats=(const(1),) * 2, strides=(const(0),) * 2)
    return with_new(g, Node("scalar_0", "Scalar", (), y, attrs, axis=(0, 1)))


def with_line(g: HintGraph) -> HintGraph:
    attrs = {"start": 0, "step": 1}
    return with_new(g, Node("iota_0", "Iota", (), g.node("gather_0").y, attrs, axis=(0, 1)))


def with_workspace(g: HintGraph, writer: str) -> HintGraph:
    """A workspace that is read in the group that writes it."""
    y = TensorView(dtype("float32"), (), (), ())
    g = with_new(g, Node("Workspace_0", "Workspace", (writer,), y, {"index": 0}), at=4)
    load = replace(g.node("gather_0"), name="gather_1", inputs=("Workspace_0",))
    return with_new(g, load, at=5)


Q, V = const(4), sym("z0z1t_size")
ONE = const(1)

#: (invariant, change of the graph before scheduling that breaks it)
HINT_CASES = [
    ("names_are_unique", lambda g: replace(g, nodes=(*g.nodes, g.nodes[0]))),
    ("names_are_unique", lambda g: with_axis(g, 1, name="z0")),
    ("names_are_unique", lambda g: replace(g, symbols=(Symbol("s0"), Symbol("s0")))),
    ("inputs_come_first", lambda g: with_node(g, "abs_0", inputs=("store",))),
    ("inputs_come_first", lambda g: with_node(g, "abs_0", inputs=("gone",))),
    ("inputs_come_first", lambda g: with_node(g, "abs_0", inputs=("abs_0",))),
    ("axes_exist", lambda g: with_axis(g, 1, id=5)),
    ("axes_exist", lambda g: with_axis(g, 0, origin=(1,))),
    ("axes_exist", lambda g: with_node(g, "abs_0", axis=(0, 9))),
    ("axes_exist", lambda g: with_node(g, "abs_0", axis=(0, 0))),
    ("axes_exist", lambda g: with_node(g, "abs_0", loop_axis=7)),
    ("axes_exist", lambda g: with_y(g, "abs_0", axis=(0, -1))),
    ("lengths_match", lambda g: with_y(g, "abs_0", repeats=(sym("s0"),))),
    ("lengths_match", lambda g: with_y(g, "abs_0", strides=())),
    ("lengths_match", lambda g: with_y(g, "abs_0", vectorized_axis=(0, 1))),
    ("symbols_are_declared", lambda g: replace(g, symbols=())),
    ("symbols_are_declared", lambda g: replace(g, symbols=(Symbol("s0", 5, 4),))),
    ("symbols_are_declared", lambda g: replace(g, symbols=(Symbol("s0", 5, 9, 10),))),
    ("only_repeats_are_quotients", lambda g: with_y(g, "abs_0", offset=Ratio(sym("s0"), 3))),
    ("axes_derive", lambda g: with_axis(g, 1, origin=(0,))),
    ("axes_derive", lambda g: with_axis(g, 1, type=AxisType.MERGED, origin=(0,))),
    ("repeats_fit_axes", lambda g: with_y(g, "abs_0", repeats=(sym("s0"), const(100)))),
    ("strides_mark_broadcasts", lambda g: with_y(g, "abs_0", strides=(const(0), const(1)))),
    ("strides_mark_broadcasts", lambda g: with_y(g, "abs_0", repeats=(const(1), const(200)))),
    ("vectorized_axes_are_inside", lambda g: with_node(g, "abs_0", loop_axis=0)),
    ("ops_are_known", lambda g: with_node(g, "abs_0", op="Abz")),
    ("ops_are_known", lambda g: with_node(g, "abs_0", inputs=("gather_0", "gather_0"))),
    ("reductions_share_axes", lambda g: with_reductions(g, (sym("s0"), const(200)))),
    ("reductions_share_axes", lambda g: with_reductions(g, (sym("s0"), ONE), (ONE, const(200)))),
    (
        "ops_are_known",
        lambda g: with_node(with_reductions(g, (sym("s0"), ONE)), "sum_0", inputs=()),
    ),
    (
        "operands_have_the_axes_of_results",
        lambda g: with_y(g, "abs_0", repeats=(sym("s0"), ONE), strides=(ONE, const(0))),
    ),
    ("lines_are_straight", with_line),
    ("scalars_have_a_value", with_scalar),
    ("scalars_have_a_value", lambda g: with_scalar(g, value=1, expr="s0")),
    ("scalars_have_a_value", lambda g: with_scalar(g, expr="s0 +")),
    ("scalars_have_a_value", lambda g: with_scalar(g, expr="s1")),
    ("workspaces_are_written_first", lambda g: with_workspace(g, "store")),
    ("workspaces_are_written_first", lambda g: with_workspace(g, "abs_0")),
    ("dtypes_fit_rows", lambda g: with_y(g, "abs_0", dtype=dtype("float16"))),
    ("dtypes_fit_rows", lambda g: with_node(g, "abs_0", op="LogicalNot")),
    ("loads_and_stores_connect", lambda g: with_node(g, "abs_0", op="Load")),
]

#: The same for the scheduled graph.
IMPL_CASES = [
    ("accumulators_are_joined", lambda g: with_node(g, "abs_0", joins="none")),
    ("accumulators_are_joined", lambda g: with_node(g, "abs_0", joins="gather_0")),
    (
        "staggered_loops_join_nothing",
        lambda g: replace(g, tiling=replace(g.tiling, staggered=(0,))),
    ),
    ("takeovers_end_in_a_store", lambda g: with_node(g, "abs_0", over="Data_0")),
    ("takeovers_end_in_a_store", lambda g: with_node(g, "abs_0", over="gather_0")),
    ("axes_exist", lambda g: replace(g, y_axis=17)),
    ("symbols_are_declared", lambda g: with_buffer(g, 0, nbytes=sym("n") * 32)),
    ("axes_derive", lambda g: with_axis(g, 3, size=const(3))),
    ("axes_derive", lambda g: with_axis(g, 4, size=V * 2)),
    ("axes_derive", lambda g: with_axis(g, 4, origin=(1,))),
    ("axes_derive", lambda g: with_axis(g, 6, origin=())),
    (
        "tiling_names_the_split",
        lambda g: with_length(g, axis=1),
    ),
    (
        "tiling_names_the_split",
        lambda g: replace(
            g, tiling=replace(g.tiling, lengths=(replace(g.tiling.opened, extent=const(8)),))
        ),
    ),
    ("vectorized_axes_are_inside", lambda g: with_node(g, "abs_0", loop_axis=5)),
    (
        "vectorized_axes_are_inside",
        lambda g: with_y(g, "abs_0", vectorized_axis=(), vectorized_strides=()),
    ),
    ("hoisted_nodes_use_hoisted", lambda g: with_node(g, "abs_0", loop_axis=None)),
    ("calls_take_dtypes", lambda g: with_node(g, "abs_0", op="Sigmoid")),
    ("loads_and_stores_connect", lambda g: with_node(g, "abs_0", inputs=("Data_0",))),
    ("loads_and_stores_connect", lambda g: with_node(g, "store", inputs=("Data_0",))),
    ("tensors_have_one_place", lambda g: with_y(g, "abs_0", mem=None)),
    ("tensors_have_one_place", lambda g: with_y(g, "abs_0", que=None)),
    ("tensors_have_one_place", lambda g: with_y(g, "abs_0", buf=0)),
    ("tensors_have_one_place", lambda g: with_y(g, "Data_0", que=Queue(0, 2, 2))),
    ("tensors_have_one_place", lambda g: with_mem(g, "abs_0", alloc_type=AllocType.BUFFER)),
    ("tensors_have_one_place", lambda g: with_mem(g, "abs_0", hardware=Hardware.GM)),
    ("tensors_have_one_place", lambda g: with_mem(g, "abs_0", position=Position.GM)),
    ("tensor_ids_are_unique", lambda g: with_mem(g, "abs_0", tensor_id=2)),
    ("plan_lists_tensors", lambda g: with_buffer(g, 0, tensors=())),
    ("plan_lists_tensors", lambda g: with_buffer(g, 0, id=9)),
    ("plan_lists_tensors", lambda g: with_buffer(g, 0, position=Position.VECCALC)),
    ("plan_lists_tensors", lambda g: with_buffer(g, 0, buf_num=1)),
    ("plan_lists_tensors", lambda g: with_buffer(g, 0, id=1)),
    ("plan_lists_tensors", lambda g: with_node(g, "abs_0", tmp_buffers=(TmpBuffer(4, Q),))),
    ("buffers_are_counted", lambda g: with_buffer(g, 0, depth=0)),
    ("ub_is_the_sum_of_buffers", lambda g: replace(g, tiling=replace(g.tiling, ub=const(1)))),
]


@pytest.mark.parametrize(("invariant", "change"), HINT_CASES)
def test_broken_before_scheduling(abs_hint: HintGraph, invariant: str, change: Any):
    assert invariant in broken(change(abs_hint))


@pytest.mark.parametrize(("invariant", "change"), HINT_CASES[:15] + IMPL_CASES)
def test_broken_after_scheduling(abs_impl: ImplGraph, invariant: str, change: Any):
    assert invariant in broken(change(abs_impl))


def test_a_copy_may_call_a_bool_uint8(abs_hint: HintGraph):
    g = with_y(with_node(abs_hint, "abs_0", op="Relu"), "Data_0", dtype=dtype("bool"))
    g = with_y(g, "gather_0", dtype=dtype("uint8"))
    assert {d.where.node for d in verify(g)} == {"abs_0"}
    assert "dtypes_fit_rows" in broken(with_y(g, "gather_0", dtype=dtype("int8")))


def test_every_check_has_a_case():
    cases = {name for name, _ in HINT_CASES + IMPL_CASES} | {"buffers_are_not_shared_in_time"}
    assert cases == {c.__name__ for c in CHECKS}


def test_broken_references_hide_what_depends_on_them(abs_impl: ImplGraph):
    g = with_y(with_node(abs_impl, "abs_0", inputs=("gone",)), "store", dtype=dtype("int8"))
    assert broken(g) == ["inputs_come_first"]


def test_exceptions_of_the_stride_rule(abs_hint: HintGraph):
    one = with_axis(abs_hint, 1, size=const(1))
    for stride in (0, 1, 200):
        g = with_y(one, "abs_0", repeats=(sym("s0"), const(1)), strides=(const(1), const(stride)))
        found = [d for d in verify(g) if d.where.node == "abs_0"]
        assert found == []


def buffered(g: ImplGraph, *chain: tuple[str, str, int | None, dict[str, Any]]) -> ImplGraph:
    """``gather_0``, then (name, op, buf, fields) in a chain, then the store."""
    first, last = g.nodes[:2], g.nodes[2:]
    nodes: list[Node] = []
    before = "gather_0"
    plan: dict[int, list[str]] = {}
    for k, (name, op, buf, fields) in enumerate(chain):
        mem = replace(last[0].y.mem, tensor_id=20 + k)  # type: ignore[type-var]
        if buf is None:
            y = last[0].y
        else:
            mem = replace(mem, alloc_type=AllocType.BUFFER, position=Position.VECCALC)
            y = replace(last[0].y, que=None, buf=buf)
            plan.setdefault(buf, []).append(name)
        inputs = fields.pop("inputs", (before,))
        y = replace(y, mem=mem)
        nodes.append(replace(last[0], name=name, op=op, inputs=inputs, y=y, **fields))
        before = name
    tmp = {t.id for n in nodes for t in n.tmp_buffers}
    buffers = (
        g.buffers[0],
        replace(g.buffers[1], tensors=tuple(n.name for n in nodes if n.y.buf is None)),
        *(
            BufferPlan(BufferKind.BUF, b, Position.VECCALC, 1, 1, const(32), tuple(plan.get(b, ())))
            for b in sorted(set(plan) | tmp)
        ),
    )
    ub = g.tiling.ub + 32 * (len(buffers) - 2)
    return replace(
        g,
        nodes=(*first, *nodes, replace(last[1], inputs=(before,)), last[2]),
        buffers=buffers,
        tiling=replace(g.tiling, ub=ub),
    )


SHARED = "buffers_are_not_shared_in_time"


def test_tensors_that_take_turns(abs_impl: ImplGraph):
    turns = (("a", "Exp", 0, {}), ("b", "Exp", 1, {}), ("c", "Abs", 0, {}), ("d", "Abs", None, {}))
    assert verify(buffered(abs_impl, *turns)) == []
    clash = (*turns[:3], ("d", "Add", None, {"inputs": ("c", "a")}))
    assert broken(buffered(abs_impl, *clash)) == [SHARED]


def test_in_place_where_the_call_allows_it(abs_impl: ImplGraph):
    tail = ("c", "Abs", None, {})
    assert verify(buffered(abs_impl, ("a", "Exp", 0, {}), ("b", "Exp", 0, {}), tail)) == []
    not_in_place = buffered(abs_impl, ("a", "Exp", 0, {}), ("b", "UbCopy", 0, {}), tail)
    assert broken(not_in_place) == [SHARED]


def test_what_is_made_before_the_loop_lives_to_the_end(abs_impl: ImplGraph):
    g = with_node(abs_impl, "gather_0", loop_axis=None)
    before = {"loop_axis": None}
    tail = (("b", "Exp", 1, {}), ("c", "Exp", 0, {}), ("d", "Abs", None, {}))
    assert broken(buffered(g, ("a", "Exp", 0, before), *tail)) == [SHARED]
    assert verify(buffered(g, ("a", "Exp", 2, before), *tail)) == []


def test_what_only_nodes_before_the_loop_use_ends_there(abs_impl: ImplGraph):
    g = with_node(abs_impl, "gather_0", loop_axis=None)
    before = {"loop_axis": None}
    first = (("a", "Exp", 0, before), ("b", "Exp", 1, before))
    last = ("e", "Abs", None, {})
    assert verify(buffered(g, *first, ("c", "Exp", 0, {}), ("d", "Exp", 2, {}), last)) == []
    assert broken(buffered(g, *first, ("c", "Exp", 0, {}), ("d", "Exp", 1, {}), last)) == [SHARED]


def test_tmp_buffers_are_taken_during_the_call(abs_impl: ImplGraph):
    def graph(tmp: int) -> ImplGraph:
        scratch = {"tmp_buffers": (TmpBuffer(tmp, const(32)),)}
        return buffered(
            abs_impl,
            ("a", "Exp", 0, {}),
            ("b", "Exp", 1, {}),
            ("c", "Tanh", 2, scratch),
            ("d", "Abs", None, {}),
        )

    assert verify(graph(3)) == []
    assert verify(graph(0)) == []  # a is no longer needed
    assert broken(graph(1)) == [SHARED]
    assert broken(graph(2)) == [SHARED]
