"""The ranking: legal tiles and modelled cycles."""

from collections.abc import Callable

import pytest

from autofuse.implgraph.expr.expression import ONE, align_up, const, sym
from autofuse.implgraph.ir.graph import ImplGraph, TilingSpec
from autofuse.schedule import rank as ranking
from autofuse.schedule.axes.tile_limits import largest_tile, sample_env, smallest_tile
from autofuse.schedule.rank import modelled_cycles
from autofuse.schedule.search.costs import Costs
from autofuse.targets import load_target


def spec(extent, *, granule=8, tile_max=None, limit=4096):
    t = sym("t")
    return TilingSpec(
        tile_axis=0,
        tile_size="t",
        block_size="b",
        extent=const(extent),
        outer=ONE,
        granule=granule,
        tile_max=None if tile_max is None else const(tile_max),
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


def test_templates_that_are_all_kept_in_one_order_are_not_modelled(
    impls: Callable[..., tuple[ImplGraph, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "modelled_cycles", lambda *_: pytest.fail("modelled"))
    (impl,) = impls({"x": ("float32", (64,))}, [("y", "Abs", ["x"])], ["y"])[:1]
    made = [ranking.Made(0, impl, always=True, special=False)]
    assert ranking.rank(made, 2, Costs(load_target("ascend910b1"))) == [
        ranking.Ranked(0.0, made[0])
    ]
