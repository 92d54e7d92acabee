"""The ranking: legal tiles and modelled cycles."""

import pytest

from autofuse.implgraph.expr.expression import ONE, align_up, const, sym
from autofuse.implgraph.ir.graph import TileLength, TilingSpec
from autofuse.schedule.axes.tile_limits import largest_tile, sample_env, smallest_tile
from autofuse.schedule.rank import modelled_cycles
from autofuse.schedule.search.costs import Costs


def spec(extent, *, granule=8, tile_max=None, limit=4096):
    t = sym("t")
    return TilingSpec(
        lengths=(
            TileLength(
                0, "t", const(extent), granule, None if tile_max is None else const(tile_max)
            ),
        ),
        block_size="b",
        outer=ONE,
        row_elements=ONE,
        ub=4 * align_up(4 * t, 32),
        ub_limit=limit,
    )


@pytest.mark.parametrize(
    ("given", "smallest", "largest"),
    [
        (spec(1000), 8, 256),
        (spec(5), 5, 5),
        (spec(200), 8, 200),
        (spec(257), 8, 256),
        (spec(1000, tile_max=100), 8, 96),
        (spec(1000, granule=64), 64, 256),
        (spec(1000, granule=512), 512, 0),
    ],
)
def test_legal_tiles(given, smallest, largest):
    assert smallest_tile(given, {}) == smallest
    assert largest_tile(given, {}) == largest


def test_empty_axis_has_a_tile_of_one():
    assert smallest_tile(spec(0), {}) == 1
    assert largest_tile(spec(0), {}) == 1


def test_symbols_are_sampled_at_their_hint_within_the_range(impls):
    (impl, *_) = impls(
        {"x": ("float32", ["a", "b", "c"])},
        [("y", "Exp", ["x"])],
        ["y"],
        a=(1, 100, 7),
        b=(1, 100, None),
        c=(2000, 4000, None),
    )
    assert sample_env(impl) == {"a": 7, "b": 100, "c": 2000}


def test_more_data_cost_more(impls, target):
    def cycles(n):
        return modelled_cycles(
            impls({"x": ("float32", [n])}, [("y", "Exp", ["x"])], ["y"])[0], Costs(target)
        )

    assert cycles(1 << 16) < cycles(1 << 20) < cycles(1 << 24)
