"""Running sums of rows: templates for many rows in a tile and for few, and what the tables say of either."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import draws
import pytest
from twin_graphs import CHIP, graph

from autofuse import api
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.tile_limits import largest_tile
from autofuse.schedule.scheduler import _reduced_axes
from autofuse.schedule.search.bound import bind
from autofuse.schedule.search.breakdown import cost_of
from autofuse.schedule.search.cost_form import cost_form
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import best_tiling
from autofuse.schedule.templates import scan

SYMBOLS = {"m": {"min": 1, "max": 1 << 14}, "n": {"min": 1, "max": 1 << 12}}


@pytest.fixture(scope="module", params=["float32", "float16"])
def templates(request: pytest.FixtureRequest) -> list[ImplGraph]:
    nodes = [("y", "CumSum", ["x"], {"axis": 1})]
    document = graph({"x": (request.param, ("m", "n"))}, nodes, **SYMBOLS)
    (result,) = api.build(document, target=CHIP).schedule
    return [i for i in result.groups[0].impls if i.template == scan.ALL]


def whole(group: Any, shape: list[Any], axis: int, **symbols: Any) -> list[tuple[Any, ...]]:
    """Suffix, least and greatest tile of the templates with whole sums in a tile; axes of ``x`` stay apart."""
    inputs = {"x": ("float32", shape), "b": ("float32", [*shape[-2:-1], 1])}
    nodes = [("p", "Mul", ["x", "b"]), ("y", "CumSum", ["p"], {"axis": axis})]
    g = group(inputs, nodes, ["y"], **symbols)
    g = replace(g, reduced=_reduced_axes(g.nodes, g.order)[0])
    found = [c for _, c in scan.SCAN.candidates(g) if c.template == scan.ALL]
    return [(c.suffix, c.position, c.lengths.shortest, c.lengths.longest) for c in found]


def test_many_rows_and_few(group):
    assert whole(group, [300, 200], 1) == [("", 0, 16, None), ("few", 0, 1, 15)]


def test_rows_inside_a_step_of_the_tile_count(group):
    """Five rows for every index of the outermost axis: four of these are more than 15 rows, three are not."""
    found = whole(group, [30, 5, 200], 2)
    assert ("", 0, 4, None) in found
    assert ("few", 0, 1, 3) in found


def test_a_step_with_enough_rows_has_one_template(group):
    assert [c for c in whole(group, [30, 16, 200], 2) if c[1] == 0] == [("", 0, 1, None)]


def test_columns_have_one_template(group):
    assert whole(group, [300, 200], 0) == [("", 1, 1, None)]


def test_an_unknown_number_of_rows_has_one_template(group):
    found = whole(group, [30, "s", 200], 2, s=(1, 4096, 64))
    assert [c for c in found if c[1] == 0] == [("", 0, 1, None)]


def test_what_is_left_of_many_rows_is_summed_like_them(templates):
    """The last tile may have fewer than 16 rows; one after the other they would take longer than a whole tile."""
    assert {impl.suffix == scan.FEW for impl in templates} == {True, False}
    for impl in templates:
        (node,) = (n for n in impl.nodes if n.op == "Scan")
        assert node.attrs.get("together", False) == (impl.suffix != scan.FEW)


def test_few_rows_need_less_ub(templates):
    many, few = (next(i for i in templates if i.suffix == s) for s in ("", scan.FEW))
    sizes = {"m": 4096, "n": 1500, few.tiling.opened.symbol: 15}
    assert few.tiling.ub.evaluate(sizes) < 0.6 * many.tiling.ub.evaluate(
        {**sizes, many.tiling.opened.symbol: 16}
    )


def test_the_choice_is_near_the_best(templates):
    """Of both templates, by the model itself: at most a tenth above the best tile of any length."""
    random_ = draws.python_rng()
    for _ in range(12):
        sizes = {"m": int(2 ** random_.uniform(0, 13)), "n": int(2 ** random_.uniform(0, 8))}
        legal = [i for i in templates if all(c.holds(sizes) for c in i.tiling.conditions)]
        forms = {i.name: bind(cost_form(i, CHIP), i.tiling, sizes) for i in legal}
        found = [t for i in legal if (t := best_tiling(i, Costs(CHIP), sizes)) is not None]
        best = min(
            cost_of(forms[i.name], CHIP, tile, max(-(-pieces // cores), 1)).total
            for i in legal
            for tile in (1, 2, 4, 8, 12, 15, 16, 32, 48, 64, 128)
            if i.tiling.opened.granule <= tile <= largest_tile(i.tiling, sizes)
            if tile % i.tiling.opened.granule == 0
            for pieces in (-(-sizes["m"] // tile),)
            for cores in (1, 8, 24, 48)
        )
        chosen = min(found, key=lambda t: t.cost.total)
        assert chosen.cost.total <= 1.1 * best, sizes
