"""Loops that every core starts at a step of its own: which they are, and what the model makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from row_statistics import NORM, SOFTMAX, along
from twin_graphs import CHIP, graph

from autofuse import api
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.ir.printer import print_graph
from autofuse.schedule import scheduler
from autofuse.schedule.cost.cost import Reach, evaluate
from autofuse.schedule.cost.stagger import with_staggered_loops
from autofuse.schedule.search.cost_form import cost_form
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import best_tiling
from autofuse.schedule.search.tile_cost import bind, chip_table, tile_parts, tile_time
from autofuse.schedule.search.workload import workload
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
    with pytest.MonkeyPatch.context() as m:
        m.setattr(scheduler, "MAX_STATIC", 10)
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


def test_the_model_counts_places():
    """Of what all cores read, one part for each place that they start at is read as if in the same order."""
    impl = loop(norm())
    tile = 4000
    work, before = (workload(i, CHIP, {}, tile) for i in (impl, in_order(impl)))
    steps = LONG // tile
    whole = 96 * LONG * 4
    assert before.traffic.same_order == whole
    assert before.traffic.shared == 0
    assert work.traffic.same_order == whole // steps
    assert work.traffic.shared == whole - whole // steps
    loads = [c for body in work.loops for c in body.body.loads]
    assert [c.places for c in loads if c.reach is Reach.SHARED] == [steps]
    assert evaluate(work, CHIP).total < evaluate(before, CHIP).total


@pytest.mark.parametrize("tile", [256, 1024, 4032])
def test_the_tables_count_the_same(tile: int):
    """What staggering takes off a choice is what it takes off in the model."""
    chip = chip_table(CHIP)
    off = []
    for impl in (loop(norm()), in_order(loop(norm()))):
        form = bind(cost_form(impl, CHIP), impl.tiling, {})
        solved = tile_time(form, chip, tile_parts(form, chip, tile), 2)
        modelled = evaluate(workload(impl, CHIP, {}, tile, per_core=2), CHIP)
        off.append((solved / CHIP.clock_mhz, modelled.total))
    (solved, modelled), (solved_before, modelled_before) = off
    assert solved_before - solved == pytest.approx(modelled_before - modelled, rel=0.1)
    assert modelled_before - modelled > 1.0


def test_it_pays_for_a_norm_of_few_rows():
    impl = loop(norm())
    now, before = (best_tiling(i, Costs(CHIP), {}) for i in (impl, in_order(impl)))
    assert now is not None
    assert before is not None
    assert now.cost.total < 0.9 * before.cost.total


@pytest.mark.parametrize(
    ("rows", "tile", "reach", "places"),
    [
        (96, 2048, Reach.SHARED, 2),
        (96, 1024, Reach.SHARED, 4),
        (96, 4096, Reach.SAME_ORDER, None),
        (16, 2048, Reach.L2, None),
    ],
)
def test_tiles_of_a_row_that_all_rows_share(
    rows: int, tile: int, reach: Reach, places: int | None
) -> None:
    """With a row for each core at least, all of them go through all tiles of it, and begin at any of these."""
    inputs = {"x": ("float32", (rows, 4096)), "b": ("float32", (4096,))}
    document = graph(inputs, [("y", "Add", ["x", "b"])])
    impl = next(i for i in templates(document) if i.template == "general" and not i.cut_axes())
    work = workload(impl, CHIP, {}, tile, per_core=2)
    found = [(c.reach, c.places) for c in work.loops[0].body.loads]
    assert (reach, places) in found
    form, chip = bind(cost_form(impl, CHIP), impl.tiling, {}), chip_table(CHIP)
    solved = tile_time(form, chip, tile_parts(form, chip, tile), 2)
    us = solved / CHIP.clock_mhz + CHIP.kernel_head_us
    assert us == pytest.approx(evaluate(work, CHIP).total, rel=0.02)
