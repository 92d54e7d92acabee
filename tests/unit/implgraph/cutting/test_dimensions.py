from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.cutting.dimensions import bind, check_shapes, shrink, symbolize
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup


def make(inputs, nodes, strides=None):
    """inputs: name -> shape; nodes: (result, op, operands[, attrs]), the last is the output."""
    tensors = {}
    for name, shape in inputs.items():
        steps = (strides or {}).get(name)
        layout = steps and tuple(map(const, steps))
        tensors[name] = Tensor(name, BY_NAME["float32"], tuple(map(const, shape)), layout)
    made = []
    for result, op, operands, *rest in nodes:
        attrs = {k: tuple(map(const, v)) for k, v in rest[0].items()} if rest else {}
        dtype, shape = infer_node(lookup(op), [tensors[x] for x in operands], attrs)
        tensors[result] = Tensor(result, dtype, shape)
        made.append(FusionNode(f"n{len(made)}", op, tuple(operands), (result,), attrs))
    outs = (GraphOutput("o", nodes[-1][0]),)
    return FusionGraph("g", (), tuple(inputs), tuple(made), outs, tensors)


def shapes(graph):
    return {name: [str(s) for s in t.shape] for name, t in graph.tensors.items()}


def shape(graph, name):
    return [s.value for s in graph.tensors[name].shape]


BIAS = make({"x": (3121, 8000), "b": (8000,)}, [("y", "Add", ["x", "b"])])


def test_sizes_shrink_within_their_alignment_class():
    small = shrink(BIAS, 10_000)
    check_shapes(small)
    assert shapes(small) == {"x": ["113", "64"], "b": ["64"], "y": ["113", "64"]}


def test_only_as_many_dimensions_shrink_as_needed():
    assert shapes(shrink(BIAS, 3121 * 64))["x"] == ["3121", "64"]
    assert shrink(BIAS, 3121 * 8000) is BIAS


def test_the_second_step_goes_below_64():
    assert shapes(shrink(BIAS, 49 * 64))["x"] == ["49", "64"]


def test_outer_dimensions_shrink_further():
    graph = make({"x": (32, 12, 128, 128)}, [("y", "Abs", ["x"])])
    assert shapes(shrink(graph, 12 * 16 * 16 * 64))["y"] == ["16", "12", "16", "64"]
    assert shapes(shrink(BIAS, 1))["x"] == ["17", "64"]


def test_what_cannot_shrink_stays():
    graph = make({"x": (16, 12, 64)}, [("y", "Abs", ["x"])])
    assert shrink(graph, 1) is graph


def test_broadcasts_and_reshapes_follow():
    graph = make(
        {"x": (640, 768), "m": (640, 1)},
        [
            ("h", "Reshape", ["x"], {"shape": (640, 12, 64)}),
            ("w", "Broadcast", ["m"], {"shape": (640, 768)}),
            ("f", "Mul", ["x", "w"]),
            ("g", "Reshape", ["f"], {"shape": (640, 12, 64)}),
            ("y", "Add", ["h", "g"]),
        ],
    )
    small = shrink(graph, 50_000)
    check_shapes(small)
    assert shapes(small)["y"] == ["64", "12", "64"]
    assert shapes(small)["w"] == ["64", "768"]
    assert shapes(small)["m"] == ["64", "1"]


def test_dimensions_that_do_not_divide_keep_their_size():
    graph = make({"x": (640, 4, 6)}, [("y", "Reshape", ["x"], {"shape": (640, 6, 4)})])
    small = shrink(graph, 5000)
    check_shapes(small)
    assert shapes(small) == {"x": ["64", "4", "6"], "y": ["64", "6", "4"]}


def test_padding_between_rows_stays():
    graph = make({"x": (640, 640)}, [("y", "Abs", ["x"])], strides={"x": (650, 1)})
    small = shrink(graph, 5000)
    assert [str(s) for s in small.tensors["x"].strides] == ["74", "1"]


def test_symbols_replace_the_largest_dimensions():
    s = symbolize(BIAS, 1)
    check_shapes(s)
    assert shapes(s) == {"x": ["3121", "s0"], "b": ["s0"], "y": ["3121", "s0"]}
    (symbol,) = s.symbols
    assert (symbol.min, symbol.hint) == (0, 8000)
    assert 8000 <= symbol.max <= (1 << 40) // 3121


def test_symbols_through_a_reshape():
    graph = make({"x": (40, 768)}, [("y", "Reshape", ["x"], {"shape": (40, 12, 64)})])
    s = symbolize(graph)
    check_shapes(s)
    assert shapes(s) == {"x": ["s1", "(s0 * s2)"], "y": ["s1", "s2", "s0"]}
    assert [q.min for q in s.symbols] == [1, 0, 1]
    assert bind(s, {q.name: q.hint for q in s.symbols}) == graph


def test_no_tensor_can_exceed_the_element_limit():
    graph = make({"x": (1 << 25, 4, 6), "z": (3,)}, [("y", "Abs", ["x"])])
    s = symbolize(graph)
    top = {q.name: q.max for q in s.symbols}
    assert all(q.max >= q.hint for q in s.symbols)
    assert all(q.max <= 1 << 31 for q in s.symbols)
    for t in s.tensors.values():
        assert math.prod(d.evaluate(top) for d in t.shape) <= 1 << 40


def test_new_symbols_avoid_old_names():
    s = symbolize(symbolize(BIAS, 1), 4)
    assert [q.name for q in s.symbols] == ["s0", "s1"]
    check_shapes(s)


def test_an_output_and_the_input_that_it_overwrites_have_one_shape():
    graph = make({"x": (8,), "w": (8,)}, [("y", "Abs", ["w"])])
    graph = replace(graph, outputs=(GraphOutput("o", "y", "x"),))
    assert set(map(str, (t.shape for t in symbolize(graph).tensors.values()))) == {"(Expr(s0),)"}


def test_limit_zero_changes_nothing():
    assert symbolize(BIAS, 0) is BIAS


def test_bind_checks_names_and_ranges():
    s = symbolize(BIAS, 2)
    half = bind(s, {"s0": 100})
    assert [q.name for q in half.symbols] == ["s1"]
    for values in ({"s9": 1}, {"s0": -1}, {"s0": 1 << 60}):
        with pytest.raises(AutofuseError) as e:
            bind(s, values)
        assert e.value.diagnostics[0].code == "AF1109"


def padded(low, high, *more, shape=(300, 4096)):
    nodes = [("p", "Pad", ["x"], {"low": low, "high": high}), *more]
    return make({"x": shape}, nodes)


def test_the_inside_of_a_frame_shrinks_and_the_frame_stays():
    small = shrink(padded((0, 1), (2, 3)), 20_000)
    check_shapes(small)
    assert shapes(small) == {"x": ["108", "64"], "p": ["110", "68"]}
    assert dict(small.nodes[0].attrs) == {"low": (const(0), const(1)), "high": (const(2), const(3))}


def test_what_is_as_large_as_a_frame_follows_it():
    graph = padded(
        (0, 1), (0, 3), ("q", "Pad", ["p"], {"low": (5, 0), "high": (0, 0)}), ("y", "Abs", ["q"])
    )
    small = shrink(graph, 20_000)
    check_shapes(small)
    assert shapes(small)["y"] == ["113", "68"]
    symbolic = symbolize(graph)
    check_shapes(symbolic)
    assert shapes(symbolic)["y"] == ["(5 + s1)", "(4 + s0)"]
    assert bind(symbolic, {"s0": 4096, "s1": 300}).tensors == graph.tensors


@pytest.mark.parametrize(
    "more",
    [
        [("y", "Reshape", ["p"], {"shape": (300, 41, 100)})],  # a frame does not split
        [("s", "Slice", ["p"], {"starts": (0, 2), "shape": (300, 4096)}), ("y", "Add", ["s", "x"])],
        [("s", "Slice", ["p"], {"starts": (0, 2), "shape": (300, 50)})],
    ],
)
def test_a_frame_that_something_else_fixes_keeps_the_inside(more):
    small = shrink(padded((0, 2), (0, 2), *more), 20_000)
    check_shapes(small)
    assert shapes(small)["p"][1] == "4100"


def test_two_dimensions_in_frames_of_one_size_stay():
    nodes = [
        ("p", "Pad", ["x"], {"low": (0,), "high": (4,)}),
        ("q", "Pad", ["y"], {"low": (8,), "high": (0,)}),
        ("z", "Add", ["p", "q"]),
    ]
    graph = make({"x": (4096,), "y": (4092,)}, nodes)
    assert shrink(graph, 1000) is graph


@pytest.mark.corpus
def test_the_corpus_shrinks_and_takes_symbols(shared_dir):
    from autofuse.frontends import read_graph

    done = 0
    for path in sorted((shared_dir / "corpus" / "akg").rglob("*.json")):
        try:
            graph = read_graph(path)
        except AutofuseError:
            continue
        check_shapes(shrink(graph, 1 << 16))
        symbolic = symbolize(graph)
        check_shapes(symbolic)
        assert bind(symbolic, {q.name: q.hint for q in symbolic.symbols}).tensors == graph.tensors
        done += 1
    assert done >= 1159
