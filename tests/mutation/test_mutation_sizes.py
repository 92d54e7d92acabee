"""Sizes that mutants run with (``benchmarks/mutation/mutation_data.py``).

Every loop over tiles has work with one of them, and every buffer is full, although its length is rounded up.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from mutation_data import sizes_for, sizes_that_fill, tiles_for
from mutation_kernels import candidates, impls_of
from mutation_memory import has_room
from mutation_run import MAX_ELEMENTS
from twin_graphs import every_template

from autofuse import api
from autofuse.codegen.ir.kernel_ir import InitBuffer
from autofuse.implgraph.cutting.dimensions import shrink
from autofuse.machines.twin.oracle.sizes import largest_tensor, shapes_for

GRAPHS = Path(__file__).resolve().parents[1] / "snapshot" / "graphs"


@pytest.mark.parametrize("name", ["column_sums", "running_sum_rows", "gather_rows"])
def test_every_tiled_axis_is_long_with_one_of_the_sizes(name: str) -> None:
    # Rows are folded in scratch space from 9 on; 4,096 elements are less than one row for each part of column_sums.
    built = api.build(shrink(api.read(GRAPHS / f"{name}.json"), MAX_ELEMENTS))
    extents = [i.tiling.opened.extent for i in impls_of(built)]
    sizes = sizes_for(built.graph, extents, 8, MAX_ELEMENTS)
    changing = [e for e in extents if not e.is_const]
    assert changing
    for e in changing:
        assert max(e.evaluate(s) for s in sizes) >= 9, str(e)
    assert max(largest_tensor(built.graph, s) for s in sizes) <= 1 << 16


@pytest.mark.parametrize("name", ["running_sum_rows", "running_sum"])
def test_sizes_stay_small_where_these_reach_every_axis(name: str) -> None:
    graph = shrink(api.read(GRAPHS / f"{name}.json"), MAX_ELEMENTS)
    extents = [i.tiling.opened.extent for i in impls_of(api.build(graph))]
    small = shapes_for(graph, 8, 0, max_elements=MAX_ELEMENTS)
    assert sizes_for(graph, extents, 8, MAX_ELEMENTS) == small


def test_the_parts_of_the_rows_have_a_rest() -> None:
    built = api.build(shrink(api.read(GRAPHS / "column_sums.json"), MAX_ELEMENTS))
    extents = [i.tiling.opened.extent for i in impls_of(built)]
    small = shapes_for(built.graph, 8, 0, max_elements=MAX_ELEMENTS)
    grown = [s for s in sizes_for(built.graph, extents, 8, MAX_ELEMENTS) if s not in small]
    assert any(s["n"] % 16 and s["n"] // 16 >= 9 for s in grown)


def test_a_tile_fills_the_buffers_of_its_rows() -> None:
    """Rows of 224 bytes fill buffers that are multiples of 256 bytes long with 8 of them, or 24."""
    built = api.build(GRAPHS / "broadcast_trailing.json")
    row = next(i for i in impls_of(built) if i.template == "row")
    assert any(224 * t % 256 == 0 for t in tiles_for(row, {}))


def test_sizes_are_added_until_tiles_fill_the_buffers() -> None:
    """Tiles of 64 floats are half of 512 bytes: only an axis of 128 and more has one that leaves no room."""
    built = api.build(GRAPHS.parents[2] / "examples" / "add_bias_dynamic.json")
    general = [i for i in impls_of(built) if i.template == "general"]
    small = [{s.name: 1 for s in general[0].symbols}]
    added = sizes_that_fill(built.graph, general, small, MAX_ELEMENTS)
    assert any(4 * t % 512 == 0 for s in added for i in general for t in tiles_for(i, s))
    assert not sizes_that_fill(built.graph, general, [*small, *added], MAX_ELEMENTS)


@every_template()
def test_a_smaller_buffer_has_less_than_its_tensor_needs() -> None:
    """One tile needs 128 bytes of the 512 that it gets; what is smaller by less is the same kernel."""
    built = api.build(shrink(api.read(GRAPHS / "bias_aligned.json"), MAX_ELEMENTS))
    own = [c for c in candidates(built) if c.impl is not None and c.impl.template == "general"]
    found = {c.text: c for c in own if c.kind == "shrink-buffer"}
    assert "x_queue: 416 bytes less" in found
    impl, original = (
        found["x_queue: 416 bytes less"].impl,
        found["x_queue: 416 bytes less"].original,
    )
    assert impl is not None
    assert original is not None
    for less, room in ((384, True), (416, False)):
        body = tuple(
            replace(s, nbytes=s.nbytes - less)
            if isinstance(s, InitBuffer) and s.name == "x_queue"
            else s
            for s in original.body
        )
        assert has_room(replace(original, body=body), impl, built.target) == room
    pads = [f"buf{b.id}" for b in impl.buffers if b.pad]
    assert pads
    assert not [t for t in found if t.startswith(tuple(f"{p}:" for p in pads))]
