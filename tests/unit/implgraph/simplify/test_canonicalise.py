from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.ir.graph import AxisType
from autofuse.implgraph.lowering.lowering import groups, lower
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.simplify import canonicalise as canonicalising
from autofuse.implgraph.simplify.canonicalise import PIPELINE, NoOpCast, canonicalise


def make(inputs, nodes, outputs):
    """inputs: name -> shape or (shape, dtype); nodes: (result, op, operands, attrs)."""
    tensors = {}
    for name, spec in inputs.items():
        shape, dtype = spec if spec and isinstance(spec[-1], str) else (spec, "float32")
        tensors[name] = Tensor(name, BY_NAME[dtype], tuple(map(const, shape)))
    made = []
    for result, op, operands, *rest in nodes:
        attrs = dict(rest[0]) if rest else {}
        if "shape" in attrs:
            attrs["shape"] = tuple(map(const, attrs["shape"]))
        values = [tensors[x] if isinstance(x, str) else x for x in operands]
        dtype, shape = infer_node(lookup(op), values, attrs)
        tensors[result] = Tensor(result, dtype, shape)
        made.append(FusionNode(f"{op.lower()}_{len(made)}", op, tuple(operands), (result,), attrs))
    outs = tuple(GraphOutput(o, o) for o in outputs)
    return FusionGraph("g", (), tuple(inputs), tuple(made), outs, tensors)


def ops(hint):
    return [n.op for n in hint.nodes if n.axis]


def run(*args):
    hint = canonicalise(lower(make(*args)))
    assert canonicalise(hint) is hint
    return hint


def test_axes_of_a_dense_graph_merge():
    hint = run({"x": (200, 200)}, [("y", "Abs", ["x"])], ["y"])
    assert [(a.name, a.id, str(a.size), a.origin, a.align) for a in hint.axes] == [
        ("z0", 0, "200", (), -1),
        ("z1", 1, "200", (), -1),
        ("z0z1", 2, "40000", (0, 1), -1),
    ]
    assert [a.type for a in hint.axes] == [AxisType.ORIGINAL] * 2 + [AxisType.MERGED]
    assert [n.name for n in hint.nodes] == ["Data_0", "gather_0", "abs_0", "store", "Output_0"]
    assert hint.node("abs_0").y.axis == (2,)


def test_a_broadcast_keeps_its_axes_apart():
    hint = run({"x": (2, 3, 4, 5), "b": (4, 5)}, [("y", "Add", ["x", "b"])], ["y"])
    assert [a.name for a in hint.axes] == ["z0", "z1", "z2", "z3", "z0z1", "z2z3"]
    assert hint.node("add_0").axis == (4, 5)


def test_merged_axes_of_all_groups_come_last():
    hint = run({"x": (2, 3), "w": (4, 5)}, [("a", "Abs", ["x"]), ("b", "Abs", ["w"])], ["a", "b"])
    assert [a.name for a in hint.axes] == ["z0", "z1", "z2", "z3", "z0z1", "z2z3"]
    assert [g[0].axis for g in groups(hint)] == [(4,), (5,)]


def test_constants_fold_to_the_precision_of_the_dtype():
    hint = run(
        {"x": ((8,), "float16")},
        [
            ("c", "Add", [Constant(0.1, BY_NAME["float16"]), Constant(0.2, BY_NAME["float16"])]),
            ("y", "Mul", ["x", "c"]),
        ],
        ["y"],
    )
    (scalar,) = hint.ops("Scalar")
    assert scalar.attrs == {"value": 0.2998046875}
    assert ops(hint) == ["Load", "Scalar", "Mul", "Store"]


def test_a_folded_output_goes_through_a_broadcast():
    hint = run({"x": (8,)}, [("y", "Add", [Constant(1.0), Constant(2.0)])], ["y"])
    assert ops(hint) == ["Scalar", "Broadcast", "Store"]


def test_an_integer_that_overflows_is_not_folded():
    i8 = BY_NAME["int8"]
    hint = run({"x": (8,)}, [("y", "Add", [Constant(127, i8), Constant(1, i8)])], ["y"])
    assert "Add" in ops(hint)


@pytest.mark.parametrize(
    ("start", "through", "gone"),
    [
        ("float16", "float32", True),
        ("float32", "float16", False),
        ("float32", "float32", True),
        ("int8", "float16", True),
        ("int16", "float16", False),
        ("uint8", "bfloat16", True),
        ("int32", "float32", False),
        ("int32", "int64", True),
        ("uint16", "int16", False),
        ("bool", "float16", True),
    ],
)
def test_casts_there_and_back(start, through, gone):
    hint = run(
        {"x": ((8,), start)},
        [("t", "Cast", ["x"], {"dtype": through}), ("y", "Cast", ["t"], {"dtype": start})],
        ["y"],
    )
    assert ("Cast" not in ops(hint)) == gone


def test_a_rounding_cast_is_not_a_no_op():
    hint = run({"x": (8,)}, [("y", "Cast", ["x"], {"dtype": "float32", "round": "FLOOR"})], ["y"])
    assert "Cast" in ops(hint)


def test_broadcasts_of_broadcasts_become_one():
    hint = run(
        {"x": (4, 1, 1)},
        [
            ("a", "Broadcast", ["x"], {"shape": (4, 6, 1)}),
            ("y", "Broadcast", ["a"], {"shape": (4, 6, 5)}),
        ],
        ["y"],
    )
    assert ops(hint) == ["Load", "Broadcast", "Store"]


def test_work_happens_before_the_broadcast():
    hint = run(
        {"x": (4, 1), "w": (4, 1), "big": (4, 600)},
        [
            ("bx", "Broadcast", ["x"], {"shape": (4, 600)}),
            ("bw", "Broadcast", ["w"], {"shape": (4, 600)}),
            ("s", "Add", ["bx", "bw"]),
            ("e", "Exp", ["s"]),
            ("y", "Mul", ["e", "big"]),
        ],
        ["y"],
    )
    assert [str(r) for r in hint.node("exp_3").y.repeats] == ["4", "1"]
    assert len(list(hint.ops("Broadcast"))) == 1


def test_a_broadcast_of_one_element_is_used_without():
    hint = run(
        {"u": (1,), "x": (8, 8)},
        [("b", "Broadcast", ["u"], {"shape": (8, 8)}), ("y", "Add", ["x", "b"])],
        ["y"],
    )
    assert "Broadcast" not in ops(hint)


def test_a_comparison_stays_behind_the_broadcast():
    hint = run(
        {"x": (4, 1), "w": (4, 1)},
        [
            ("bx", "Broadcast", ["x"], {"shape": (4, 600)}),
            ("y", "Less", ["bx", "w"]),
        ],
        ["y"],
    )
    assert ops(hint)[-3:] == ["Broadcast", "Less", "Store"]


def test_equal_nodes_become_one_and_dead_ones_go():
    hint = run(
        {"x": (8,), "unused": (8,)},
        [
            ("a", "Exp", ["x"]),
            ("b", "Exp", ["x"]),
            ("dead", "Abs", ["unused"]),
            ("y", "Add", ["a", "b"]),
        ],
        ["y"],
    )
    assert ops(hint) == ["Load", "Exp", "Add", "Store"]
    assert hint.node("Data_1").op == "Data"


def test_nodes_are_not_compared_with_all_of_their_op(monkeypatch):
    """Of many different constants each is looked at once in a run of the pass."""
    looked = 0
    key = canonicalising._attr_key

    def counted(value):
        nonlocal looked
        looked += 1
        return key(value)

    counts = [20, 40]
    looks = []
    for count in counts:
        nodes = [
            (f"y{i}", "Maximum", [f"y{i - 1}" if i else "x", Constant(float(i))])
            for i in range(count)
        ]
        hint = lower(make({"x": (8,)}, nodes, [f"y{count - 1}"]))
        monkeypatch.setattr(canonicalising, "_attr_key", counted)
        looked = 0
        canonicalise(hint)
        looks.append(looked)
        monkeypatch.undo()
    assert looks[0] > 0
    assert looks[1] <= 2.2 * looks[0]


def test_positive_and_negative_zero_differ():
    hint = run(
        {"x": (8,)},
        [
            ("a", "Maximum", ["x", Constant(0.0)]),
            ("b", "Maximum", ["x", Constant(-0.0)]),
            ("y", "Add", ["a", "b"]),
        ],
        ["y"],
    )
    assert len(list(hint.ops("Scalar"))) == 2


def test_loads_and_scalars_count_from_zero():
    hint = run(
        {"x": (8,), "w": (8,)},
        [("d", "Abs", ["x"]), ("y", "Add", ["w", Constant(1.0)])],
        ["y"],
    )
    assert hint.node("gather_0").inputs == ("Data_1",)
    assert hint.node("scalar_0").op == "Scalar"


def test_a_pass_without_work_returns_its_argument():
    hint = run({"x": (8, 8)}, [("y", "Abs", ["x"])], ["y"])
    assert all(step(hint) is hint for step in PIPELINE)


def test_passes_are_values():
    assert NoOpCast() == NoOpCast()
    assert len({p.name for p in PIPELINE}) == len(PIPELINE)
    with pytest.raises(AttributeError):
        NoOpCast().name = "x"
    assert replace(NoOpCast(), name="other").name == "other"


@pytest.mark.parametrize(
    ("low", "high", "to", "left"),
    [
        (-128.0, 127.0, "int8", []),
        (-128.5, np.inf, "int8", []),
        (-127.0, 127.0, "int8", ["Maximum"]),
        (-128.0, 126.0, "int8", ["Maximum", "Minimum"]),
        (0.0, 255.0, "uint8", []),
        (-128.0, 127.0, "uint8", ["Maximum", "Minimum"]),
        (-128.0, 127.0, "int32", ["Maximum", "Minimum"]),
        (np.nan, np.nan, "int8", ["Maximum", "Minimum"]),
        (-(2.0**31), 2.0**31, "int32", []),
    ],
)
def test_limits_that_a_conversion_has_anyway(low, high, to, left):
    nodes = [
        ("t", "Maximum", ["x", Constant(low)]),
        ("u", "Minimum", [Constant(high), "t"]),
        ("y", "Cast", ["u"], {"dtype": to}),
    ]
    hint = run({"x": (8, 40)}, nodes, ["y"])
    assert [op for op in ops(hint) if op in ("Maximum", "Minimum")] == left
    # Those who want the limited numbers get them.
    both = run({"x": (8, 40)}, nodes, ["u", "y"])
    assert [op for op in ops(both) if op in ("Maximum", "Minimum")] == ["Maximum", "Minimum"]
