"""How groups are scheduled whose tensors are contiguous in GM along different axes."""

from __future__ import annotations

import pytest

from autofuse.implgraph.check.verify import check
from autofuse.implgraph.ir.graph import AxisType
from autofuse.schedule.axes.tiling_axes import reordered, with_tiles
from autofuse.schedule.placement.placement import place
from autofuse.schedule.placement.transposition import contiguous_axis, is_relaid
from autofuse.schedule.templates.transpose import TRANSPOSE, contiguous_axes


def turned(group, shape, perm, dtype="float32", **symbols):
    nodes = [("y", "Transpose", ["x"], {"perm": perm})]
    return group({"x": (dtype, shape)}, nodes, ["y"], **symbols)


def test_contiguous_axes_are_those_of_loads_and_stores(group):
    g = turned(group, [40, 3, 50], (0, 2, 1))
    kept = contiguous_axes(g)
    assert kept == g.order[-2:]
    load = next(n for n in g.nodes if n.op == "Load")
    store = next(n for n in g.nodes if n.op == "Store")
    assert {contiguous_axis(n.y, g.order) for n in (load, store)} == set(kept)


def test_a_group_with_one_order_has_no_such_template(group):
    g = group({"x": ("float32", [40, 50])}, [("y", "Exp", ["x"])], ["y"])
    assert contiguous_axes(g) == ()
    assert TRANSPOSE.candidates(g) == []


def test_each_of_the_axes_is_innermost_once(group):
    g = turned(group, [400, 500], (1, 0))
    orders = {h.order for h, _ in TRANSPOSE.candidates(g)}
    last = {next(a for a in h.axes if a.id == h.order[-1]) for h, _ in TRANSPOSE.candidates(g)}
    assert len(orders) > 1
    assert {a.origin for a in last if a.type is AxisType.TILE_IN} == {(0,), (1,)}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_a_load_or_store_is_transposed_in_ub(group, dtype):
    g = turned(group, [400, 500], (1, 0), dtype)
    h, candidate = TRANSPOSE.candidates(g)[0]
    placed = place(h, candidate)
    turns = [n for n in placed.looped if n.op == "UbTranspose"]
    assert len(turns) == 1
    relaid = [
        n for n in placed.looped if n.op in ("Load", "Store") and is_relaid(n, placed.split.vector)
    ]
    assert len(relaid) == 1
    casts = [n for n in placed.looped if n.op == "Cast"]
    assert len(casts) == (2 if dtype == "int8" else 0)


def test_rows_of_a_relaid_copy_start_at_32_bytes(group):
    g = turned(group, [40, 13], (1, 0), "float16")
    h, candidate = TRANSPOSE.candidates(g)[0]
    placed = place(h, candidate)
    relaid = next(
        n for n in placed.looped if n.op in ("Load", "Store") and is_relaid(n, placed.split.vector)
    )
    pitch = relaid.y.vectorized_strides[-2].evaluate(
        {s: 7 for s in relaid.y.vectorized_strides[-2].symbols()}
    )
    assert pitch * 2 % 32 == 0
    assert pitch >= 7


def test_tiles_of_constant_length_are_counted_outside(group):
    g = turned(group, [400, 500], (1, 0))
    axis = g.order[-1]
    h = with_tiles(g, axis, 64)
    tiles, inside = h.axes[-2:]
    assert (tiles.type, inside.type) == (AxisType.TILE_OUT, AxisType.TILE_IN)
    assert h.order == (tiles.id, *g.order[:-1], inside.id)
    load = next(n for n in h.nodes if n.op == "Load")
    strides = dict(zip(load.y.axis, load.y.strides, strict=True))
    assert strides[tiles.id] == strides[inside.id] * 64


def test_views_follow_the_order(group):
    g = turned(group, [4, 5, 6], (2, 0, 1))
    back = tuple(reversed(g.order))
    h = reordered(g, back)
    pairs = [(n, m) for n, m in zip(g.nodes, h.nodes, strict=True) if n.y.axis == g.order]
    assert len(pairs) >= 2
    for n, m in pairs:
        assert m.y.axis == back
        assert m.y.strides == tuple(reversed(n.y.strides))


def test_every_template_is_a_sound_graph(impls):
    for i in impls(
        {"x": ("float16", ["s0", "s1"])},
        [("y", "Transpose", ["x"], {"perm": (1, 0)})],
        ["y"],
        s0=(1, 900, None),
        s1=(0, 900, None),
    ):
        check(i)


def test_transposed_in_ub_beats_single_elements(impls):
    found = impls(
        {"x": ("float32", [1000, 900])}, [("y", "Transpose", ["x"], {"perm": (1, 0)})], ["y"]
    )
    assert "general" not in {i.template for i in found} or len(found) > 1
    assert any(i.template in ("transpose", "row") for i in found)


def test_long_rows_that_stay_rows_are_not_transposed(impls):
    found = impls(
        {"x": ("float32", [8, 16, 24, 64])},
        [("y", "Transpose", ["x"], {"perm": (0, 2, 1, 3)})],
        ["y"],
    )
    assert not any(n.op == "UbTranspose" for i in found for n in i.nodes)
