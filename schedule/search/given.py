"""Given tilings, as opposed to searched ones: their legality and modelled time.

Follows the rules of ``autofuse_tuned.h``; a test compiles that header and compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.search.bound import Tiled
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import Choice

__all__ = ["GivenTile", "GivenTiling", "given_cycles", "placed", "take", "taken", "templates_of"]


@frozen
class GivenTile:
    """A choice for one group.

    Attributes:
        template: name of its function.
        tile: length of a tile; a shorter axis is one tile.
        cores: number of cores that share the tiles, as evenly as whole tiles allow; fewer if fewer are granted.
    """

    template: str
    tile: int
    cores: int


@frozen
class GivenTiling:
    """A choice for all groups of a schedule, at one shape or a range of them.

    Attributes:
        sizes: the least and largest values of symbols; a missing symbol may have any value.
        groups: a choice for each group, in order.
    """

    sizes: Mapping[str, tuple[int, int]]
    groups: tuple[GivenTile, ...]

    def covers(self, sizes: Mapping[str, int]) -> bool:
        """Return True if the tiling covers these sizes."""
        return all(least <= sizes[n] <= most for n, (least, most) in self.sizes.items())


def templates_of(
    given: GivenTiling, results: Sequence[ScheduleResult]
) -> tuple[int, tuple[int, ...]] | None:
    """Return the schedule of a tiling, and the index of each group's template, or None if no template fits."""
    names = [g.template for g in given.groups]
    for i, r in enumerate(results):
        known = [[impl.name for impl in g.impls] for g in r.groups]
        if len(known) == len(names) and all(n in k for n, k in zip(names, known, strict=True)):
            return i, tuple(k.index(n) for n, k in zip(names, known, strict=True))
    return None


def placed(
    impl: ImplGraph,
    costs: Costs,
    sizes: Mapping[str, int],
    given: GivenTile,
    *,
    ub: int | None = None,
    cores: int | None = None,
) -> Tiled | str:
    """Return a template with a given tile and its modelled cycles, or the reason, in words, why that is illegal.

    Args:
        impl: the template.
        costs: costs of templates on the chip.
        sizes: values of all symbols of the graph.
        given: tile and cores.
        ub: bytes of UB that are granted, if fewer than the target has.
        cores: cores that are granted, if fewer.
    """
    spec, chip = impl.tiling, costs.chip if cores is None else costs.chip.granted(cores)
    try:
        broken = [c.text() for c in spec.conditions if not c.holds(sizes)]
        if broken:
            return f"requires that {' and '.join(broken)}"
        form, _ = costs.bound(impl, sizes, ub)
        tile = min(given.tile, form.longest)
        if tile % spec.opened.granule and tile != form.longest:
            return f"tiles must be multiples of {spec.opened.granule}, or the whole axis of {form.longest}"
        if spec.opened.most is not None and tile > (most := spec.opened.most.evaluate(sizes)):
            return f"tiles of this template have a length of at most {most}"
        need = spec.ub.evaluate({**sizes, spec.opened.symbol: tile})
        limit = min(spec.ub_limit, chip.ub if ub is None else ub)
        if need > limit:
            return f"needs {need} bytes of UB, and {limit} are available"
        tiles = form.tiles(tile)
        per_core = max(-(-tiles // min(given.cores, chip.cores)), 1)
        (cycles,) = form.times(chip, tile, [per_core])
        return Tiled(tile, per_core, max(-(-tiles // per_core), 1), cycles)
    except ExprError:
        return "divides by a size of 0"
    except OverflowError:
        return "a size does not fit 64 bits"


def take(
    given: GivenTiling,
    results: Sequence[ScheduleResult],
    costs: Costs,
    sizes: Mapping[str, int],
    *,
    ub: int | None = None,
    cores: int | None = None,
) -> Choice | str:
    """Return the tiling data of a given tiling as the host function fills them, or the reason why it is illegal.

    Args:
        given: the tiling; not checked to cover these sizes.
        results: the schedules of the graph.
        costs: costs of templates on the chip.
        sizes: values of all symbols.
        ub: bytes of UB that are granted, if fewer than the target has.
        cores: cores that are granted, if fewer.
    """
    found = _tiled(given, results, costs, sizes, ub, cores)
    if isinstance(found, str):
        return found
    index, choices, tiled = found
    result = results[index]
    target = costs.target
    most = target.aiv_cores if cores is None else min(cores, target.aiv_cores)
    key = sum(_keys(r) for r in results[:index])
    digit, used, before = 1, 1, 0
    fields: dict[str, int] = {}
    for g, choice, t in reversed(list(zip(result.groups, choices, tiled, strict=True))):
        spec = g.impls[choice].tiling
        key += digit * choice
        digit *= len(g.impls)
        first_core = 0 if spec.first_core is None else before
        before = first_core + t.cores
        used = max(used, min(before, most))
        fields |= {spec.opened.symbol: t.tile, spec.block_size: t.per_core}
        if spec.first_core is not None:
            fields[spec.first_core] = first_core
    return Choice(key, used, fields)


def taken(
    rows: Sequence[GivenTiling],
    results: Sequence[ScheduleResult],
    costs: Costs,
    sizes: Mapping[str, int],
    *,
    ub: int | None = None,
    cores: int | None = None,
) -> tuple[int, Choice] | None:
    """Return the index of the first given tiling that covers these sizes and is legal; None: the search decides."""
    for i, row in enumerate(rows):
        if row.covers(sizes):
            found = take(row, results, costs, sizes, ub=ub, cores=cores)
            if not isinstance(found, str):
                return i, found
    return None


def given_cycles(
    given: GivenTiling,
    results: Sequence[ScheduleResult],
    costs: Costs,
    sizes: Mapping[str, int],
) -> float | str:
    """Return the modelled cycles of a given tiling without kernel start, or the reason, in words, why it is illegal."""
    found = _tiled(given, results, costs, sizes, None, None)
    if isinstance(found, str):
        return found
    index, _, tiled = found
    barriers = sum(g.sync_before for g in results[index].groups)
    return barriers * costs.target.sync_all + sum(t.cycles for t in tiled)


def _tiled(
    given: GivenTiling,
    results: Sequence[ScheduleResult],
    costs: Costs,
    sizes: Mapping[str, int],
    ub: int | None,
    cores: int | None,
) -> tuple[int, tuple[int, ...], list[Tiled]] | str:
    where = templates_of(given, results)
    if where is None:
        names = ", ".join(g.template for g in given.groups)
        return f"the kernel has no form with the templates {names}"
    index, choices = where
    tiled = []
    for g, choice, one in zip(results[index].groups, choices, given.groups, strict=True):
        found = placed(g.impls[choice], costs, sizes, one, ub=ub, cores=cores)
        if isinstance(found, str):
            return f"template {one.template} with tiles of {one.tile}: {found}"
        tiled.append(found)
    return index, choices, tiled


def _keys(result: ScheduleResult) -> int:
    count = 1
    for g in result.groups:
        count *= len(g.impls)
    return count
