"""What the last tile of an axis costs where its rows are shorter than a block: each counts for many bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from exhaustive import best_of_all, legal_tiles
from twin_graphs import CHIP, every_template, graph

from autofuse import api
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule.scheduler import schedule
from autofuse.schedule.search.bound import BoundForm, bind, chip_figures, search
from autofuse.schedule.search.breakdown import cost_of
from autofuse.schedule.search.cost_form import cost_form

TABLE = chip_figures(CHIP)
SHAPES = [(635, 22), (154, 15), (1906, 97), (87, 90)]


def bound(rows: int, columns: int) -> tuple[ImplGraph, BoundForm]:
    """Running sums of columns, of which a tile has some."""
    nodes = [("y", "CumSum", ["x"], {"axis": 0})]
    whole = lower(api.read(graph({"x": ("float32", (rows, columns))}, nodes)))
    with every_template():
        (result,) = schedule(canonicalise(whole), CHIP)
    impl = next(i for i in result.groups[0].impls if i.template == "scan_all")
    return impl, bind(cost_form(impl, CHIP), impl.tiling, {})


def lengths(form: BoundForm, columns: int) -> Iterator[tuple[int, bool]]:
    """Legal tiles, and whether the last one has rows of less than a block."""
    for tile in map(int, legal_tiles(form)):
        left = columns % tile or tile
        yield tile, tile < columns and left * 4 < 32


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_a_last_tile_of_short_rows_takes_longer(rows: int, columns: int) -> None:
    _, form = bound(rows, columns)
    seen = 0
    for tile, is_short in lengths(form, columns):
        # Beside a tile of longer rows than a short one counts for, it takes no longer.
        last = form.shares(TABLE, tile, 1).last
        assert last == 0 if not is_short else last > 0 or tile >= 64
        seen += is_short
    assert seen > 0


def test_it_is_named_where_it_limits() -> None:
    """Of 97 columns tiles of 8 leave one, tiles of 40 leave 17."""
    _, form = bound(1906, 97)
    assert cost_of(form, CHIP, 8, 1).limit == "last tile"
    assert cost_of(form, CHIP, 40, 1).limit != "last tile"


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_the_search_finds_the_best_of_all(rows: int, columns: int) -> None:
    _, form = bound(rows, columns)
    found, best = search(form, TABLE), best_of_all(form, TABLE)
    assert found is not None
    assert best is not None
    assert found.cycles <= 1.01 * best.cycles


def test_of_one_axis_the_last_core_has_it_with_fewer_tiles() -> None:
    """Thirteen tiles on four cores: the last core has one, and time for it; on thirteen cores it takes longest."""
    _, form = bound(1906, 97)
    assert form.tiles(8) == 13

    def longer(per_core: int) -> float:
        return form.shares(TABLE, 8, per_core).last

    assert longer(1) > 0
    assert longer(13) > 0
    # It has three tiles fewer than the others.
    assert longer(4) == pytest.approx(longer(13) - 3 * form.shares(TABLE, 8, 13).period)
