"""The costs of a template for given sizes, in the form of the compiled model and search, ``autofuse_tile_search.h``.

Times are cycles, without the part that is the same for all choices (``kernel_head_us``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from autofuse.base.tiling import Chip
from autofuse.base.tiling import Form as BoundForm
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import TilingSpec
from autofuse.schedule.axes.tile_limits import largest_tile
from autofuse.schedule.search.cost_form import six_digits
from autofuse.schedule.search.form import Affine, CostForm
from autofuse.targets import TargetSpec

__all__ = ["BoundForm", "Chip", "Tiled", "best_of_length", "bind", "chip_figures", "search"]


@frozen
class Tiled:
    """A choice: length of a tile, tiles per core, cores, and its cycles."""

    tile: int
    per_core: int
    cores: int
    cycles: float


@lru_cache(maxsize=16)
def chip_figures(target: TargetSpec) -> Chip:
    """Return the figures of a target: cycles, bytes, and bytes per cycle."""
    m = target.model
    cycles = (m.core_start, m.load_issue, m.store_issue, m.row, m.load_latency)
    of_a_core = (m.load_core_rate, m.hot_core_rate, m.store_core_rate)
    of_all = (
        m.read_gbs,
        m.l2_read_gbs,
        m.same_order_gbs,
        m.shared_gbs,
        m.write_gbs,
        m.writeback_gbs,
    )
    return Chip(
        (
            target.aiv_cores,
            target.ub_usable,
            target.l2_bytes,
            target.arch.cache_line_bytes,
            round(m.short_row),
            *map(six_digits, (*cycles, *of_a_core)),
            *(six_digits(gbs * 1e3 / target.clock_mhz) for gbs in of_all),
        )
    )


def search(form: BoundForm, chip: Chip) -> Tiled | None:
    """Return the tile and number of cores with the fewest cycles; None if no tile is legal."""
    found = form.search(chip)
    return None if found is None else Tiled(*found)


def best_of_length(form: BoundForm, chip: Chip, tile: int) -> Tiled:
    """Return the number of cores with the fewest cycles for a tile length."""
    return Tiled(*form.search_length(chip, tile))


def bind(
    form: CostForm,
    spec: TilingSpec,
    sizes: Mapping[str, int],
    ub: int | None = None,
) -> BoundForm:
    """Return the costs of a template for given sizes.

    Args:
        form: costs of the template.
        spec: its tiling.
        sizes: values of all symbols of the graph.
        ub: usable bytes of UB, if fewer than the target has.

    Raises:
        ExprError: a size that the template divides by is 0.
        OverflowError: a number beyond 64 bits.
    """

    def line(a: Affine) -> tuple[int, int]:
        base, step = a.base.number, a.step.number
        return (
            a.base.evaluate(sizes) if base is None else base,
            a.step.evaluate(sizes) if step is None else step,
        )

    copies: list[tuple[float, ...]] = []
    for c in form.copies:
        apart = tiles_apart = 0
        for size, distance in c.apart:
            if size is None or size.evaluate(sizes) > 1:
                apart |= distance.evaluate(sizes)
        for distance in c.tiles_apart:
            tiles_apart |= distance.evaluate(sizes)
        copies.append(
            (
                c.body,
                c.route,
                c.count,
                *line(c.commands),
                *line(c.rows),
                *line(c.row_bytes),
                apart,
                tiles_apart,
                c.distinct.evaluate(sizes),
                c.table.evaluate(sizes),
                c.names.evaluate(sizes),
                any(v.evaluate(sizes) > 1 for v in c.varying),
                c.varies_by_tile,
                *_weighted(c.cycles, line),
            )
        )
    return BoundForm(
        (
            spec.opened.extent.evaluate(sizes),
            max(spec.opened.longest.evaluate(sizes), 1),
            spec.outer.evaluate(sizes),
            spec.reduce_outer.evaluate(sizes),
            spec.opened.granule,
            spec.reduce_tiles,
        ),
        largest_tile(spec, sizes, ub),
        [
            (
                *(b.place, b.buffers, b.heads, b.scalar, b.held, b.chained, b.staggered),
                *_weighted(b.places, line),
            )
            for b in form.bodies
        ],
        copies,
        [(v.body, *line(v.along), *_weighted(v.cycles, line)) for v in form.calls],
    )


def _weighted(
    parts: Sequence[tuple[float, Affine]], line: Callable[[Affine], tuple[int, int]]
) -> tuple[float, float]:
    base = step = 0.0
    for weight, count in parts:
        at = line(count)
        base += weight * at[0]
        step += weight * at[1]
    return base, step
