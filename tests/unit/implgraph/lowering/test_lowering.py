from __future__ import annotations

import gc
import sys

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import Expr, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import (
    Constant,
    FusionGraph,
    FusionNode,
    GraphOutput,
    Symbol,
    Tensor,
)
from autofuse.implgraph.lowering.lowering import group_order_hazards, groups, in_place_pairs, lower
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.simplify.canonicalise import canonicalise

F32 = BY_NAME["float32"]


def dims(*shape):
    return tuple(sym(s) if isinstance(s, str) else Expr.of(s) for s in shape)


def make(inputs, nodes, outputs, strides=None, symbols=()):
    """nodes: (result, op, operands[, shape]); outputs: names or (name, inout)."""
    tensors = {}
    for name, shape in inputs.items():
        steps = (strides or {}).get(name)
        tensors[name] = Tensor(name, F32, dims(*shape), steps and dims(*steps))
    made = []
    for result, op, operands, *rest in nodes:
        attrs = {"shape": dims(*rest[0])} if rest else {}
        values = [tensors[x] if isinstance(x, str) else x for x in operands]
        dtype, shape = infer_node(lookup(op), values, attrs)
        tensors[result] = Tensor(result, dtype, shape)
        made.append(FusionNode(f"{op.lower()}_{len(made)}", op, tuple(operands), (result,), attrs))
    outs = [o if isinstance(o, tuple) else (o, None) for o in outputs]
    return FusionGraph(
        "g",
        tuple(Symbol(s, 0) for s in symbols),
        tuple(inputs),
        tuple(made),
        tuple(GraphOutput(f"o{i}", t, alias) for i, (t, alias) in enumerate(outs)),
        tensors,
    )


def summary(hint):
    return [(n.name, n.op, *n.inputs) for n in hint.nodes]


def sizes(hint):
    return [str(a.size) for a in hint.axes]


def strides(hint, name):
    return [str(s) for s in hint.node(name).y.strides]


def test_one_op():
    hint = lower(make({"x": (200, 200)}, [("y", "Abs", ["x"])], ["y"]))
    assert summary(hint) == [
        ("Data_0", "Data"),
        ("gather_0", "Load", "Data_0"),
        ("abs_0", "Abs", "gather_0"),
        ("store", "Store", "abs_0"),
        ("Output_0", "Output", "store"),
    ]
    assert sizes(hint) == ["200", "200"]
    assert strides(hint, "abs_0") == ["200", "1"]


def test_a_broadcast_inside_an_op_becomes_explicit():
    hint = lower(make({"x": (8, 16), "b": (16,)}, [("y", "Add", ["x", "b"])], ["y"]))
    assert [n.op for n in hint.nodes] == [
        *["Data", "Data", "Load", "Load", "Broadcast", "Add", "Store", "Output"]
    ]
    bias = next(n for n in hint.ops("Load") if n.inputs == ("Data_1",))
    assert [str(r) for r in bias.y.repeats] == ["1", "16"]
    assert [str(s) for s in bias.y.strides] == ["0", "1"]


def test_one_element_operands_stay_uniform():
    graph = make(
        {"x": (8, 16), "u": (1,)},
        [("a", "Mul", ["x", "u"]), ("y", "Add", ["a", Constant(1)])],
        ["y"],
    )
    hint = lower(graph)
    assert not list(hint.ops("Broadcast"))
    assert hint.node("scalar_0").attrs == {"value": 1}
    assert hint.node("scalar_0").y.varies() == ()


def test_a_boundary_of_a_broadcast_splits_an_axis():
    """The output is flat; the operand inside needs an axis of its own."""
    graph = make(
        {"x": (4, 12), "b": (12,)},
        [("a", "Add", ["x", "b"]), ("y", "Reshape", ["a"], (48,))],
        ["y"],
    )
    assert sizes(lower(graph)) == ["4", "12"]


def test_a_symbolic_axis_splits_exactly():
    graph = make(
        {"x": ("s0", 12), "b": (12,)},
        [("a", "Add", ["x", "b"]), ("y", "Reshape", ["a"], (sym("s0") * 12,))],
        ["y"],
        symbols=["s0"],
    )
    assert sizes(lower(graph)) == ["s0", "12"]


def test_dimensions_of_the_output_are_not_binding():
    """[6, 4] and [4, 6] share no dimensions; the broadcast needs those of [4, 6] only."""
    graph = make(
        {"x": (4, 6), "b": (6,)},
        [("a", "Add", ["x", "b"]), ("y", "Reshape", ["a"], (6, 4))],
        ["y"],
    )
    assert sizes(lower(graph)) == ["4", "6"]


def test_axes_that_do_not_do_keep_nothing_alive():
    graph = make(
        {"x": (4, 6), "b": (6,)},
        [("a", "Add", ["x", "b"]), ("y", "Reshape", ["a"], (6, 4))],
        ["y"],
    )
    gc.collect()
    gc.disable()
    try:
        lower(graph)
        # An error that is kept refers to the frames of all callers, and to what they hold.
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_two_broadcasts_that_do_not_line_up_meet_in_a_workspace():
    graph = make(
        {"x": (4, 6), "b": (6,), "c": (4,)},
        [("a", "Add", ["x", "b"]), ("r", "Reshape", ["a"], (6, 4)), ("y", "Add", ["r", "c"])],
        ["y"],
    )
    hint = lower(graph)
    (space,) = hint.ops("Workspace")
    assert space.attrs == {"index": 0, "size": const(24)}
    assert [n.op for n in groups(hint)[0]] == ["Load", "Load", "Broadcast", "Add", "Store"]
    assert group_order_hazards(hint) == [(0, 1)]


def test_outer_product_uses_one_tensor_twice():
    graph = make(
        {"x": (5,)},
        [
            ("c", "Reshape", ["x"], (5, 1)),
            ("r", "Reshape", ["x"], (1, 5)),
            ("y", "Mul", ["c", "r"]),
        ],
        ["y"],
    )
    hint = lower(graph)
    assert sorted(strides(hint, n.name) for n in hint.ops("Load")) == [["0", "1"], ["1", "0"]]


def test_strides_and_offset_of_an_input():
    graph = make({"x": (4, 6)}, [("y", "Abs", ["x"])], ["y"], strides={"x": (8, 1)})
    hint = canonicalise(lower(graph))
    assert strides(hint, "gather_0") == ["8", "1"]
    assert strides(hint, "store") == ["6", "1"]
    flat = make(
        {"x": (4, 6)},
        [("a", "Abs", ["x"]), ("y", "Reshape", ["a"], (24,))],
        ["y"],
        strides={"x": (8, 1)},
    )
    assert strides(lower(flat), "gather_0") == ["8", "1"]


def test_outputs_of_different_sizes_are_groups():
    graph = make(
        {"x": (8, 16), "b": (16,)},
        [("e", "Exp", ["b"]), ("y", "Add", ["x", "e"])],
        ["y", "e"],
    )
    hint = lower(graph)
    assert [len(g) for g in groups(hint)] == [6, 3]
    assert [a.name for a in hint.axes] == ["z0", "z1", "z2"]
    assert {"exp_0", "exp_0_1", "store", "store_1"} <= {n.name for n in hint.nodes}


def test_an_input_that_is_an_output_is_copied():
    hint = lower(make({"x": (8,)}, [], ["x"]))
    assert [n.op for n in hint.nodes] == ["Data", "Load", "Store", "Output"]


def test_a_constant_output_goes_through_a_broadcast():
    graph = make({"x": (8,)}, [("y", "Broadcast", [Constant(2.0)], (8,))], ["y"])
    hint = canonicalise(lower(graph))
    assert [n.op for n in hint.nodes] == ["Data", "Scalar", "Broadcast", "Store", "Output"]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_element_is_one_axis_of_size_one(shape):
    hint = lower(make({"x": shape}, [("y", "Abs", ["x"])], ["y"]))
    assert sizes(hint) == ["1"]
    assert strides(hint, "store") == ["0"]


def test_no_elements():
    graph = make({"x": (0, 4), "b": (4,)}, [("y", "Add", ["x", "b"])], ["y"])
    assert sizes(lower(graph)) == ["0"]


def test_in_place_update():
    graph = make({"x": (8,), "d": (8,)}, [("y", "Sub", ["x", "d"])], [("y", "x")])
    hint = lower(graph)
    assert hint.node("Output_0").attrs == {"index": 0, "inout": 0}
    assert group_order_hazards(hint) == []


def test_an_input_is_read_before_it_is_overwritten():
    nodes = [("y", "Abs", ["w"]), ("s", "Sub", ["x", "w"])]
    graph = make({"x": (8,), "w": (8,)}, nodes, [("y", "x"), "s"])
    hint = canonicalise(lower(graph))
    names = [n.name for n in hint.nodes]
    (load,) = (n.name for n in hint.ops("Load") if n.inputs == ("Data_0",))
    assert in_place_pairs(hint) == [(load, "store")]
    assert names.index(load) < names.index("store")


def test_a_reader_in_another_group_runs_first():
    graph = make(
        {"x": (8,), "w": (4, 8)},
        [("a", "Abs", ["x"]), ("b", "Add", ["w", "x"])],
        [("a", "x"), "b"],
    )
    hint = lower(graph)
    assert group_order_hazards(hint) == [(0, 1)]
    assert groups(hint)[1][-1].name == hint.node("Output_0").inputs[0]


def test_groups_that_overwrite_each_others_inputs_copy_one_of_them_first():
    graph = make(
        {"x": (8,), "w": (8,)},
        [("a", "Abs", ["x"]), ("b", "Abs", ["w"])],
        [("a", "w"), ("b", "x")],
    )
    hint = lower(graph)
    assert len(list(hint.ops("Workspace"))) == 1
    assert all(a < b for a, b in group_order_hazards(hint))


def test_an_output_has_as_many_elements_as_the_input_that_it_overwrites():
    graph = make({"x": (1,), "w": (8,)}, [("y", "Add", ["w", "x"])], [("y", "x")])
    with pytest.raises(AutofuseError) as e:
        lower(graph)
    assert e.value.diagnostics[0].code == "AF2102"


def test_names_of_nodes_do_not_collide():
    graph = make({"x": (8,)}, [("y", "Abs", ["x"])], ["y"])
    node = FusionNode("store", "Abs", ("x",), ("y",))
    graph = FusionGraph("g", (), graph.inputs, (node,), graph.outputs, graph.tensors)
    assert [n.name for n in lower(graph).nodes] == [
        "Data_0",
        "gather_0",
        "store_1",
        "store",
        "Output_0",
    ]


def test_the_heavier_operand_comes_first():
    graph = make(
        {"x": (8,), "y": (8,), "z": (8,)},
        [("s", "Add", ["y", "z"]), ("o", "Sub", ["x", "s"])],
        ["o"],
    )
    ops = [n.name for n in lower(graph).nodes if n.axis]
    assert ops == ["gather_0", "gather_1", "add_0", "gather_2", "sub_1", "store"]


@pytest.mark.slow
def test_work_grows_with_the_depth_of_a_graph_and_no_faster():
    def calls(depth: int) -> int:
        """Function calls that lowering a chain takes: what a clock would say, on a machine with nothing else to do."""
        nodes = [("t0", "Abs", ["x"])] + [
            (f"t{i}", "Add", [f"t{i - 1}", "x"]) for i in range(1, depth)
        ]
        graph = make({"x": (64,)}, nodes, [f"t{depth - 1}"])
        made = 0

        def count(_frame: object, event: str, _arg: object) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            hint = canonicalise(lower(graph))
        finally:
            sys.setprofile(None)
        assert len(hint.nodes) == depth + 4
        return made

    assert calls(8000) < 4.8 * calls(2000)  # in proportion, or a logarithm more


@pytest.mark.corpus
def test_the_corpus_lowers(shared_dir):
    from autofuse.frontends import read_graph

    done = 0
    for path in sorted((shared_dir / "corpus" / "akg").rglob("*.json")):
        try:
            graph = read_graph(path)
        except AutofuseError:
            continue
        hint = canonicalise(lower(graph))
        assert canonicalise(hint) == hint
        done += 1
    assert done >= 1159
