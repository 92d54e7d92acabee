"""An example in the generated tiling file: the candidates compared at typical sizes, and the choice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.result import ScheduleResult, tiling_keys
from autofuse.schedule.axes.tile_limits import sample_env
from autofuse.schedule.search.bound import best_of_length
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import choose, solve_template

__all__ = ["example_lines"]

_COLUMNS = (
    "t",
    "UB bytes",
    "tiles",
    "cores",
    "load",
    "vector",
    "store",
    "period",
    "core",
    "GM",
    "time",
)


def example_lines(
    graph: FusionGraph, results: Sequence[ScheduleResult], costs: Costs
) -> tuple[str, ...]:
    """Return the lines of a comment, without comment signs; empty if nothing is legal at typical sizes."""
    impls = [i for r in results for g in r.groups for i in g.impls]
    names = [s.name for s in graph.symbols]
    sizes = {n: v for n, v in sample_env(impls[0]).items() if n in names}
    chosen = choose(results, costs, sizes)
    if chosen is None:
        return ()
    taken = tiling_keys(tuple(results))[chosen.key]
    at = ", ".join(f"{s.label} = {sizes[s.name]:,}" for s in graph.symbols)
    rows: list[tuple[str, ...]] = [("", *_COLUMNS)]
    for number, impl in enumerate(impls):
        rows += _rows(number, impl, costs, sizes, in_full=any(impl is i for i in taken))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [
        "  " + "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]
    where = f" at {at}" if at else ""
    text = [f"Cycles of each template's best pair{where} (model); * is taken:", "", *table]
    if any(costs.form(i).reads_again for i in impls):
        text += [
            "",
            "again: reloads data, which L2 may have evicted, so it has to be a quarter faster.",
        ]
    return tuple(text)


def _rows(
    number: int, impl: ImplGraph, costs: Costs, sizes: Mapping[str, int], *, in_full: bool
) -> Iterator[tuple[str, ...]]:
    """Yield the best tile of a template; for a chosen one also the longest tile and the neighbours of the best."""
    try:
        best = solve_template(impl, costs, sizes)
        bound, _ = costs.bound(impl, sizes, None)
    except (ExprError, OverflowError):
        return
    if best is None:
        return
    again = ", again" if costs.form(impl).reads_again else ""
    shown = {best.tile}
    if in_full:
        tried = sorted(bound.lengths(costs.chip))
        place = tried.index(best.tile)
        shown |= {*tried[max(place - 1, 0) : place + 2], tried[-1]}
    for tile in sorted(shown, reverse=True):
        found = best if tile == best.tile else best_of_length(bound, costs.chip, tile)
        at = bound.shares(costs.chip, tile, found.per_core)
        # Without tail tiles.
        core = at.before + at.exposed + found.per_core * at.period
        figures = (at.tile.load, at.tile.vector, at.tile.store, at.period, core, at.gm)
        used = impl.tiling.ub.evaluate({**sizes, impl.tiling.opened.symbol: tile})
        mark = "*" if in_full and tile == best.tile else ""
        cells = (tile, used, at.tiles, found.cores, *map(round, (*figures, found.cycles)))
        yield (f"template {number}{mark}{again}", *(f"{c:,}" for c in cells))
