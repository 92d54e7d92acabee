"""Sizes that mutants run with (``benchmarks/mutation_data.py``): every loop over tiles has work with one of them."""

from pathlib import Path

import pytest
from mutation import MAX_ELEMENTS
from mutation_data import sizes_for
from mutation_kernels import impls_of

from autofuse import api
from autofuse.implgraph.dimensions import shrink
from autofuse.twin.sizes import largest_tensor, shapes_for

GRAPHS = Path(__file__).resolve().parents[1] / "snapshot" / "graphs"


@pytest.mark.parametrize("name", ["column_sums", "running_sum_rows", "gather_rows"])
def test_every_tiled_axis_is_long_with_one_of_the_sizes(name: str) -> None:
    # Rows are folded in scratch space from 9 on; 4,096 elements are less than one row for each part of column_sums.
    built = api.build(shrink(api.read(GRAPHS / f"{name}.json"), MAX_ELEMENTS))
    extents = [i.tiling.extent for i in impls_of(built)]
    sizes = sizes_for(built.graph, extents, 8, MAX_ELEMENTS)
    changing = [e for e in extents if not e.is_const]
    assert changing
    for e in changing:
        assert max(e.evaluate(s) for s in sizes) >= 9, str(e)
    assert max(largest_tensor(built.graph, s) for s in sizes) <= 1 << 16


@pytest.mark.parametrize("name", ["running_sum_rows", "running_sum"])
def test_sizes_stay_small_where_these_reach_every_axis(name: str) -> None:
    graph = shrink(api.read(GRAPHS / f"{name}.json"), MAX_ELEMENTS)
    extents = [i.tiling.extent for i in impls_of(api.build(graph))]
    small = shapes_for(graph, 8, 0, max_elements=MAX_ELEMENTS)
    assert sizes_for(graph, extents, 8, MAX_ELEMENTS) == small


def test_the_parts_of_the_rows_have_a_rest() -> None:
    built = api.build(shrink(api.read(GRAPHS / "column_sums.json"), MAX_ELEMENTS))
    extents = [i.tiling.extent for i in impls_of(built)]
    small = shapes_for(built.graph, 8, 0, max_elements=MAX_ELEMENTS)
    grown = [s for s in sizes_for(built.graph, extents, 8, MAX_ELEMENTS) if s not in small]
    assert any(s["n"] % 16 and s["n"] // 16 >= 9 for s in grown)
