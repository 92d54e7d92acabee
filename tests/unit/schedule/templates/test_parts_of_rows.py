"""Tiles of whole rows that belong to one part: what is reduced along rows is complete in each, columns are added up."""

from __future__ import annotations

from collections import Counter

import draws
import pytest
from gradient_graphs import bias_gradient, layer_norm_gradient, softmax_gradient
from twin_graphs import CHIP, check, every_template, graph

from autofuse import api
from autofuse.implgraph.division.worth import Worth
from autofuse.implgraph.ir.graph import AxisType, ImplGraph
from autofuse.implgraph.lowering import lowering
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import result_cycles

H = "float16"


def cycles(built: api.BuildResult) -> float:
    (result,) = built.schedule
    found = result_cycles(result, Costs(CHIP))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("document", "least"),
    [
        (layer_norm_gradient(8192, 768), 1.3),
        (layer_norm_gradient(8192, 1024, H), 1.2),
        (softmax_gradient(8192, 768), 1.7),
        (softmax_gradient(8192, 4096, H), 1.7),
        (bias_gradient(8191, 128), 1.3),
    ],
)
def test_it_is_faster_than_to_read_the_rows_again(document, least, monkeypatch):
    built = api.build(document, target=CHIP)
    first, *_ = built.schedule[0].groups
    data = {n.name for i in first.impls[:1] for n in i.nodes if n.op == "Data"}
    for result in built.schedule:
        loads = Counter(
            n.inputs[0] for g in result.groups for n in g.impls[0].nodes if n.op == "Load"
        )
        assert {x: n for x, n in loads.items() if x in data} == dict.fromkeys(data, 1)
    monkeypatch.setattr(lowering, "in_row_parts", lambda graph, target: graph)
    assert cycles(api.build(document, target=CHIP)) > least * cycles(built)


def parts_of(built: api.BuildResult) -> list[ImplGraph]:
    """The templates with an axis of parts that a loop traverses."""
    found: list[ImplGraph] = []
    for impl in (i for r in built.schedule for g in r.groups for i in g.impls):
        cut = {inside.id for _, inside in impl.cut_axes()}
        found += [impl] if impl.r_axis is not None and impl.tiling.opened.axis in cut else []
    return found


@pytest.mark.parametrize("rows", [8191, 8192, "n"])
def test_a_tile_holds_whole_rows_of_one_part(rows):
    with every_template():
        built = api.build(layer_norm_gradient(rows, 512), target=CHIP, verify_ir=True)
    impls = parts_of(built)
    assert impls
    for impl in impls:
        named = impl.by_name()
        within = [n for n in impl.nodes if n.op in REDUCES and n.loop_axis == impl.r_axis]
        # Rows are reduced in the loop, and their results are complete there.
        assert len(within) == 2
        assert all(n.joins is None for n in within)
        joins = [n for n in impl.nodes if n.joins is not None]
        tile = impl.tile(AxisType.TILE_IN).id
        assert len(joins) == 2
        for n in joins:
            # One call adds a whole tile; the rows of the sum are added up after the loop.
            assert n.y.vectorized_axis[0] == tile
            (after,) = [m for m in impl.nodes if n.name in m.inputs and m.loop_axis != impl.r_axis]
            assert after.op in REDUCES
            assert tile not in after.y.vectorized_axis
            store = next(m for m in impl.nodes if m.op == "Store" and m.inputs[0] == after.name)
            assert store.y.repeats[0] == impl.axes[store.y.axis[0]].size
            assert named[n.joins].op == "Duplicate"


@pytest.mark.parametrize("make", [layer_norm_gradient, softmax_gradient, bias_gradient])
def test_no_template_has_tiles_of_parts(make):
    """A tile of several parts would need the length of each of them."""
    with every_template():
        built = api.build(make("n", "m"), target=CHIP)
    for impl in (i for r in built.schedule for g in r.groups for i in g.impls):
        assert impl.axes[impl.tiling.opened.axis].type is not AxisType.TILE_OUT


def test_of_unknown_rows_the_host_chooses():
    built = api.build(softmax_gradient("n", 768), target=CHIP)
    assert len(built.schedule) > 1
    assert parts_of(built)
    assert [i for i in built.schedule[0].groups[0].impls if i.r_axis is None]


def test_rows_whose_axes_are_not_one_leave_the_other_forms():
    """A sum over two dimensions, along one of which an operand does not vary."""
    document = softmax_gradient(8192, 768)
    shape = [64, 128, 768]
    document["inputs"] = [
        {"name": "x", "dtype": "float32", "shape": shape},
        {"name": "dy", "dtype": "float32", "shape": [1, *shape[1:]]},
    ]
    for n in document["nodes"]:
        if "attrs" in n:
            n["attrs"] = {**n["attrs"], "axes": [2] if n["attrs"]["axes"] == [1] else [0, 1]}
    built = api.build(document, target=CHIP)
    assert not parts_of(built)
    assert any("do not form one axis" in r.reason for r in built.schedule[0].rejected)


@pytest.mark.twin
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_columns_side_by_side_are_put_together_before_they_are_reduced(dtype, monkeypatch):
    """A workspace holds the parts one behind the other for all columns; the last part is shorter."""
    inputs = {x: (dtype, [1, 256, 1]) for x in ("a", "b")}
    nodes = [
        ("l", "Maximum", ["a", "b"]),
        ("t", "Concat", ["a", "l", "a"], {"axis": 2}),
        ("w", "Sub", ["b", "t"]),
        ("p", "ReduceProd", ["t"], {"axes": [0, 1, 2]}),
        ("y", "ArgMax", ["t"], {"axis": 1}),
    ]
    real = lowering.lower_all
    monkeypatch.setattr(Worth, "rows_per_part", lambda *_: 52)
    monkeypatch.setattr("autofuse.compiler.lower_all", lambda *a, **k: real(*a, **k)[-1:])
    monkeypatch.setattr(lowering, "computed_in_several", lambda _: ())
    with every_template():
        built = check(graph(inputs, nodes, ["y"]), seed=draws.seed())
    assert any(i.cut_axes() for r in built.schedule for g in r.groups for i in g.impls)


@pytest.mark.twin
def test_rows_of_several_dimensions(monkeypatch):
    """A loop over the rows of a part, with a tile of other kept elements, keeps a sum for each of these."""
    monkeypatch.setattr(Worth, "rows_per_part", lambda *_: 22)
    shape = [50, 5, 9]
    nodes = [
        ("t", "Mul", ["x", "z"]),
        ("s", "ReduceSum", ["t"], {"axes": [2], "keepdims": True}),
        ("e", "Add", ["t", "s"]),
        ("c", "ReduceSum", ["e"], {"axes": [0]}),
    ]
    with every_template():
        check(
            graph({"x": ("float32", shape), "z": ("float32", shape)}, nodes, ["e", "c"]),
            seed=draws.seed(),
        )
