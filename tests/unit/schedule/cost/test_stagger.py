"""Loops that every core starts at a step of its own: which they are, and what the model makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from row_statistics import NORM, SOFTMAX, along
from twin_graphs import CHIP, every_template, graph

from autofuse import api
from autofuse.base.tiling import Shares
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.ir.printer import print_graph
from autofuse.schedule.cost.stagger import with_staggered_loops
from autofuse.schedule.search.bound import bind, chip_figures
from autofuse.schedule.search.cost_form import cost_form
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import best_tiling
from autofuse.targets import TargetSpec

LONG = 40000


def norm(rows: int = 96, columns: Any = LONG) -> dict[str, Any]:
    """A layer norm with a scale that all rows share."""
    inputs = {"x": ("float32", (rows, columns)), "w": ("float32", (columns,))}
    return graph(
        inputs, [*along(NORM[:-1], [-1]), ("n", "Mul", ["d", "r"]), ("y", "Mul", ["n", "w"])]
    )


def templates(document: dict[str, Any], target: TargetSpec = CHIP) -> list[ImplGraph]:
    """Every template of a graph of one group."""
    with every_template():
        built = api.build(document, target=target)
    (result,) = built.schedule
    return list(result.groups[0].impls)


def loop(document: dict[str, Any], target: TargetSpec = CHIP) -> ImplGraph:
    """Its template with a loop over rows."""
    return next(i for i in templates(document, target) if (i.template, i.suffix) == ("reduce", ""))


def test_the_pass_that_only_stores_is_staggered():
    """The first pass of a norm has its accumulators; the second one reads the scale in any order."""
    assert loop(norm()).tiling.staggered == (1,)


def test_a_loop_with_an_accumulator_keeps_its_order():
    """Weights that all cores read in one pass with the sum: another order would be another rounding."""
    nodes = [("p", "Mul", ["x", "w"]), ("y", "ReduceSum", ["p"], {"axes": [1], "keepdims": True})]
    inputs = {"x": ("float32", (96, LONG)), "w": ("float32", (LONG,))}
    assert loop(graph(inputs, nodes)).tiling.staggered == ()


def test_a_running_sum_keeps_its_order():
    inputs = {"x": ("float32", (96, LONG)), "w": ("float32", (LONG,))}
    nodes = [("p", "Mul", ["x", "w"]), ("y", "CumSum", ["p"], {"axis": 1})]
    assert all(i.tiling.staggered == () for i in templates(graph(inputs, nodes)))


def test_loads_of_each_core_alone_are_left():
    """A softmax reads nothing that is common to cores."""
    document = graph({"x": ("float32", (96, LONG))}, SOFTMAX)
    assert all(i.tiling.staggered == () for i in templates(document))


def test_one_core_has_nobody_to_avoid():
    inputs = {"x": ("float32", (LONG,)), "w": ("float32", (LONG,))}
    nodes = [*along(NORM[:-1], [0]), ("n", "Mul", ["d", "r"]), ("y", "Mul", ["n", "w"])]
    alone = [i for i in templates(graph(inputs, nodes)) if i.tiling.tiles.as_int() == 1]
    assert alone
    assert all(i.tiling.staggered == () for i in alone)


def test_a_chip_that_does_not_care_keeps_the_order():
    model = replace(CHIP.model, shared_gbs=CHIP.model.same_order_gbs)
    assert loop(norm(), replace(CHIP, model=model)).tiling.staggered == ()


def test_the_text_form_has_the_passes():
    impl = loop(norm())
    assert ".staggered = {1, }" in print_graph(impl)
    assert with_staggered_loops(impl, CHIP).tiling == impl.tiling


def in_order(impl: ImplGraph) -> ImplGraph:
    return replace(impl, tiling=replace(impl.tiling, staggered=()))


def shares(impl: ImplGraph, tile: int, per_core: int) -> Shares:
    form = bind(cost_form(impl, CHIP), impl.tiling, {})
    return form.shares(chip_figures(CHIP), tile, per_core)


def test_the_model_counts_places():
    """Of what all cores read, one part for each place that they start at is read as if in the same order."""
    impl = loop(norm())
    tile = 4000
    now, before = (shares(i, tile, 2) for i in (impl, in_order(impl)))
    steps = LONG // tile
    whole = 96 * LONG * 4
    m = CHIP.model
    alike = whole / m.same_order_gbs
    apart = whole / steps / m.same_order_gbs + (whole - whole / steps) / m.shared_gbs
    saved = (alike - apart) * CHIP.clock_mhz / 1e3
    assert before.gm - now.gm == pytest.approx(saved, rel=1e-4)
    assert before.bytes == now.bytes
    assert now.cycles < before.cycles


def test_it_pays_for_a_norm_of_few_rows():
    impl = loop(norm())
    now, before = (best_tiling(i, Costs(CHIP), {}) for i in (impl, in_order(impl)))
    assert now is not None
    assert before is not None
    assert now.cost.total < 0.9 * before.cost.total


@pytest.mark.parametrize(
    ("rows", "tile", "places"), [(96, 2048, 2), (96, 1024, 4), (96, 4096, 1), (16, 2048, None)]
)
def test_tiles_of_a_row_that_all_rows_share(rows: int, tile: int, places: int | None) -> None:
    """With a row for each core at least, all of them go through all tiles of it, and begin at any of these."""
    inputs = {"x": ("float32", (rows, 4096)), "b": ("float32", (4096,))}
    document = graph(inputs, [("y", "Add", ["x", "b"])])
    impl = next(i for i in templates(document) if i.template == "general" and not i.cut_axes())
    m, whole = CHIP.model, rows * 4096 * 4
    if places is None:  # Each row of it is read once, and again from L2.
        shared = 4096 * 4 / m.read_gbs + (whole - 4096 * 4) / m.l2_read_gbs
    else:
        shared = whole / places / m.same_order_gbs + (whole - whole / places) / m.shared_gbs
    own = whole / m.read_gbs + whole / m.write_gbs
    found = shares(impl, tile, 2).gm / CHIP.clock_mhz * 1e3
    assert found == pytest.approx(own + shared, rel=1e-4)
