"""Summary of a schedule's kernels in numbers: templates, tiles, UB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.fusion import FusionGraph, Symbol
from autofuse.implgraph.ir.graph import ImplGraph, TilingSpec
from autofuse.report.conditions import needs
from autofuse.report.losses import kernel_roof
from autofuse.schedule.axes.result import ScheduleResult, tiling_keys
from autofuse.schedule.search.costs import Costs
from autofuse.targets import Target, TargetSpec

__all__ = ["kernel_roof_row", "largest_tile", "rejected_rows", "template_rows", "typical_sizes"]


def typical_sizes(symbols: Sequence[Symbol]) -> dict[str, int]:
    """Return one size per symbol: its hint, or 1024 if it has none, clamped to its range."""
    return {s.name: s.typical for s in symbols}


def largest_tile(tiling: TilingSpec, sizes: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the largest legal tile at these sizes and its bytes of UB; None if no tile fits."""
    extent = tiling.opened.extent.evaluate(sizes)
    limit = extent
    if tiling.opened.most is not None:
        limit = min(limit, tiling.opened.most.evaluate(sizes))

    def ub(steps: int) -> int:
        tile = min(steps * tiling.opened.granule, limit)
        return tiling.ub.evaluate({**sizes, tiling.opened.symbol: tile})

    low, high = 1, max(1, -(-limit // tiling.opened.granule))
    if extent < 1 or limit < 1 or ub(low) > tiling.ub_limit:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if ub(middle) <= tiling.ub_limit else (low, middle - 1)
    return min(low * tiling.opened.granule, limit), ub(low)


def template_rows(
    results: tuple[ScheduleResult, ...], graph: FusionGraph
) -> list[dict[str, object]]:
    """Return one row per tiling key and group; sizes without hints are typical ones of the template's form."""
    sizes = typical_sizes(graph.symbols)
    return [
        {"key": key, **_template(impl, sizes | typical_sizes(impl.symbols), graph)}
        for key, choice in enumerate(tiling_keys(results))
        for impl in choice
    ]


def _template(impl: ImplGraph, sizes: Mapping[str, int], graph: FusionGraph) -> dict[str, object]:
    tiling = impl.tiling
    try:
        # An empty part, such as a missing remainder, needs no tile.
        found = (0, 0) if tiling.opened.extent.evaluate(sizes) == 0 else largest_tile(tiling, sizes)
    except ExprError:
        found = None
    names = {a.id: a.name for a in impl.axes}
    return {
        "function": impl.name,
        "group": impl.group,
        "template": impl.variant,
        "tile_axis": names.get(tiling.opened.axis, str(tiling.opened.axis)),
        "tile": found[0] if found else None,
        "ub_bytes": found[1] if found else None,
        "ub_limit": tiling.ub_limit,
        "conditions": [needs(c, impl.symbols, sizes) for c in tiling.conditions],
        "formulas": [graph.in_words(c.text()) for c in tiling.conditions],
    }


def kernel_roof_row(
    results: tuple[ScheduleResult, ...], graph: FusionGraph, target: Target
) -> dict[str, object] | None:
    """Return the roof of a kernel at typical sizes, as ``explain`` does; None for chips without a cost model."""
    if not results or not isinstance(target, TargetSpec):
        return None
    return kernel_roof(results, Costs(target), typical_sizes(graph.symbols), graph)


def rejected_rows(
    results: tuple[ScheduleResult, ...], graph: FusionGraph
) -> list[dict[str, object]]:
    """Return the templates that were tried and dropped."""
    return [
        {
            "group": r.group,
            "template": r.template,
            "title": r.title or r.template,
            "reason": graph.in_words(r.reason),
        }
        for result in results
        for r in result.rejected
    ]
