"""The largest legal tile is the largest of all tiles that are tried one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofuse.implgraph.expr.expression import Expr, Max, Min, align_up, const, sym
from autofuse.implgraph.ir.graph import TileLength, TilingSpec
from autofuse.schedule.axes.tile_limits import largest_tile, smallest_tile

T, ROWS, N = sym("t"), sym("rows"), sym("n")
#: Bytes of UB for a tile: as an expression, and as the same function of the tile and the length of a row.
NEEDS: dict[str, tuple[Expr, Callable[[int, int], int]]] = {
    "elements": (4 * T, lambda t, n: 4 * t),
    "blocks": (2 * align_up(4 * T, 32), lambda t, n: 2 * 32 * (-(-t // 8))),
    "rows": (align_up(4 * N, 32) * T, lambda t, n: 32 * (-(-n // 8)) * t),
    "scratch": (2 * T + Max(4 * T, const(256)), lambda t, n: 2 * t + max(4 * t, 256)),
    "bounded": (Min(16 * T, const(320)) + N, lambda t, n: min(16 * t, 320) + n),
    "square": (T * T, lambda t, n: t * t),
}


def spec_of(
    needs: str, granule: int, most: Expr | None, limit: int, *, rounded: bool = False
) -> TilingSpec:
    return TilingSpec(
        lengths=(TileLength(0, "t", ROWS, granule, most, rounded),),
        block_size="b",
        outer=const(1),
        row_elements=N,
        ub=NEEDS[needs][0],
        ub_limit=limit,
    )


def tried(
    needs: str, granule: int, most: int | None, limit: int, rows: int, n: int, *, rounded: bool
) -> int:
    """The longest tile that is a multiple of the granule or holds the axis, and is within all limits; 0 if none is."""
    longest = -(-rows // granule) * granule if rounded else rows
    longest = max(longest, 1)
    legal = [
        t
        for t in range(1, longest + 1)
        if (t % granule == 0 or t == longest)
        and (most is None or t <= most)
        and NEEDS[needs][1](t, n) <= limit
    ]
    return max(legal, default=0)


@given(
    needs=st.sampled_from(sorted(NEEDS)),
    granule=st.sampled_from([1, 2, 8, 16, 32, 64]),
    most=st.none() | st.integers(1, 300),
    limit=st.integers(1, 5000),
    rows=st.integers(0, 300),
    n=st.integers(1, 40),
    rounded=st.booleans(),
    ub=st.none() | st.integers(1, 5000),
)
def test_no_legal_tile_is_longer_than_the_one_that_is_found(
    needs: str,
    granule: int,
    most: int | None,
    limit: int,
    rows: int,
    n: int,
    rounded: bool,
    ub: int | None,
) -> None:
    """The search finds the longest of all tiles that are legal, for any limits and less UB than the template has."""
    bound = None if most is None else const(most)
    spec = spec_of(needs, granule, bound, limit, rounded=rounded)
    within = limit if ub is None else min(limit, ub)
    found = largest_tile(spec, {"rows": rows, "n": n}, ub)
    assert found == tried(needs, granule, most, within, rows, n, rounded=rounded)


@pytest.mark.parametrize("granule", [2, 8, 32])
@pytest.mark.parametrize("over", [1, 3, 31])
def test_a_limit_between_two_multiples_of_the_granule_cuts_a_tile_to_the_lower_one(
    granule: int, over: int
) -> None:
    """What a template bears need not be a multiple of the granule, its tiles have to be."""
    most = 10 * granule + over % granule
    longer = {"rows": most + 1, "n": 1}
    assert largest_tile(spec_of("elements", granule, const(most), 1 << 20), longer) == 10 * granule
    # The tile that is the whole axis is as long as that is.
    whole = {"rows": most, "n": 1}
    assert largest_tile(spec_of("elements", granule, const(most), 1 << 20), whole) == most


@pytest.mark.parametrize("granules", [1, 2, 3, 255, 256, 257, 100_000])
def test_a_tile_that_fits_to_the_byte_is_legal(granules: int) -> None:
    """UB holds a tile that needs all of it, and not one that needs a byte more."""
    sizes = {"rows": 1 << 40, "n": 1}
    for limit, fits in ((4 * 8 * granules, granules), (4 * 8 * granules - 1, granules - 1)):
        assert largest_tile(spec_of("elements", 8, None, limit), sizes) == 8 * fits


@pytest.mark.parametrize("granules", [1, 2, 3, 255, 256, 257, 100_000])
def test_a_tile_as_long_as_the_template_bears_is_legal(granules: int) -> None:
    """The longest tile that is allowed is taken where UB has room for it."""
    sizes = {"rows": 1 << 40, "n": 1}
    spec = spec_of("elements", 8, const(8 * granules), 1 << 40)
    assert largest_tile(spec, sizes) == 8 * granules


@given(granule=st.sampled_from([1, 2, 8, 32]), rows=st.integers(0, 100))
def test_the_smallest_tile_is_the_shortest_that_the_search_would_take(
    granule: int, rows: int
) -> None:
    """With UB for nothing longer, the smallest tile is found; with a byte less, none is."""
    spec = spec_of("elements", granule, None, 1 << 20)
    sizes = {"rows": rows, "n": 1}
    least = smallest_tile(spec, sizes)
    assert largest_tile(spec, sizes, 4 * least) == least
    assert largest_tile(spec, sizes, 4 * least - 1) == 0
