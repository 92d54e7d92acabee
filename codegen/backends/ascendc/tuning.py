"""Tilings from a tuning file, in place of those that the search finds.

A file gives only templates, tiles and cores, for one shape or a range of shapes; the device code does not depend on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.codegen.backends.tuning_file import SCHEMA, Times, check_head, graph_digest
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import json_text
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.given import GivenTile, GivenTiling, take, templates_of

__all__ = ["Tiling", "Tilings", "check_tilings", "given_tilings"]

#: Most combinations of range ends of the symbols to check.
_MOST_CORNERS = 64
_HINT = "autofuse tune GRAPH writes a new one"


@dataclass(frozen=True, slots=True)
class Tiling:
    """A row of the table.

    Attributes:
        sizes: minimum and maximum of symbols, by their names in the graph file; a symbol left out may have any size.
        groups: a template with its tile and cores, for each group of a schedule.
        place: source location in the file.
    """

    sizes: Mapping[str, tuple[int, int]]
    groups: tuple[GivenTile, ...]
    place: Where = field(default=Where(), compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON data: an exact size is a number, a range a pair."""
        sizes = {n: a if a == b else [a, b] for n, (a, b) in self.sizes.items()}
        rows = [{"template": g.template, "tile": g.tile, "cores": g.cores} for g in self.groups]
        return {"sizes": sizes, "groups": rows}


@dataclass(frozen=True, slots=True)
class Tilings:
    """Contents of a tuning file for an Ascend chip.

    Attributes:
        graph: name of the graph.
        digest: digest of the graph.
        target: name of the chip.
        rows: the table; if several rows match a shape, the first applies.
        places: locations of ``graph``, ``digest`` and ``target`` in the file.
        times: measured or modelled times that support it.
    """

    graph: str
    digest: str
    target: str
    rows: tuple[Tiling, ...]
    places: Mapping[str, Where] = field(default_factory=dict, compare=False)
    times: tuple[Times, ...] = field(default=(), compare=False)

    @classmethod
    def of(
        cls,
        graph: FusionGraph,
        target: str,
        rows: Sequence[Tiling],
        times: Sequence[Times] = (),
    ) -> Tilings:
        """Return a tuning for a graph.

        Args:
            graph: graph.
            target: name of the chip.
            rows: rows of the table.
            times: measured or modelled times that support it.
        """
        head = graph.label, graph_digest(graph), target
        return cls(*head, tuple(rows), times=tuple(times))

    def to_json(self) -> dict[str, object]:
        """Return the contents of the file as JSON data."""
        return {
            "schema": SCHEMA,
            "graph": self.graph,
            "digest": self.digest,
            "target": self.target,
            "tilings": [r.to_json() for r in self.rows],
            **({"times": [t.to_json() for t in self.times]} if self.times else {}),
        }

    def text(self) -> str:
        """Return the text of the file."""
        return json_text(self.to_json(), indent=2) + "\n"


def given_tilings(tilings: Tilings, graph: FusionGraph) -> tuple[GivenTiling, ...]:
    """Return the rows with sizes by symbol.

    Raises:
        AutofuseError: AF3007, a size names an unknown symbol or is out of its range.
    """
    return tuple(GivenTiling(dict(_sizes(row, graph)), row.groups) for row in tilings.rows)


def check_tilings(
    tilings: Tilings, graph: FusionGraph, results: Sequence[ScheduleResult], costs: Costs
) -> tuple[GivenTiling, ...]:
    """Return the rows, each checked at the ends of its ranges.

    Raises:
        AutofuseError: AF3007, the file is for another graph or chip, or rows do not fit: an unknown template, a tile
            that exceeds UB or is not a multiple of the template's granule.
    """
    check_head(tilings, graph, costs.target.name, _HINT)
    rows = given_tilings(tilings, graph)
    found = []
    for row, given in zip(tilings.rows, rows, strict=True):
        where = templates_of(given, results)
        if where is None:
            names = ", ".join(g.template for g in given.groups)
            forms = "; ".join(_form(r) for r in results)
            text = f"the kernel has no form with the templates {names}"
            found.append(Diagnostic("AF3007", text, row.place, f"available: {forms}"))
            continue
        why = next(
            (w for s in _corners(given, graph) for w in _wrong(given, results, costs, s)), ""
        )
        if why:
            hint = "give another tile, or leave out the row to use the search"
            found.append(Diagnostic("AF3007", why, row.place, hint))
    if found:
        raise AutofuseError(found)
    return rows


def _sizes(row: Tiling, graph: FusionGraph) -> Iterator[tuple[str, tuple[int, int]]]:
    known = {s.label: s for s in graph.symbols}
    for label, (least, most) in row.sizes.items():
        s = known.get(label)
        if s is None:
            names = ", ".join(known) or "none: the graph has only fixed sizes"
            text = f"unknown symbol {label!r}"
            raise AutofuseError.of("AF3007", text, where=row.place, hint=f"symbols: {names}")
        if not s.min <= least <= most <= s.max:
            text = f"{label} from {least} to {most}: {label} must be from {s.min} to {s.max}"
            raise AutofuseError.of("AF3007", text, where=row.place)
        yield s.name, (least, most)


def _form(result: ScheduleResult) -> str:
    return " + ".join("|".join(i.name for i in g.impls) for g in result.groups)


def _corners(given: GivenTiling, graph: FusionGraph) -> Iterator[dict[str, int]]:
    """Yield the combinations of the ends of all ranges."""
    ends = {s.name: (s.min, s.max) for s in graph.symbols} | dict(given.sizes)
    pairs = [dict.fromkeys(e) for e in ends.values()]
    for values in itertools.islice(itertools.product(*pairs), _MOST_CORNERS):
        yield dict(zip(ends, values, strict=True))


def _wrong(
    given: GivenTiling, results: Sequence[ScheduleResult], costs: Costs, sizes: Mapping[str, int]
) -> Iterator[str]:
    found = take(given, results, costs, sizes)
    if isinstance(found, str):
        at = ", ".join(f"{n}={v}" for n, v in sizes.items())
        yield f"{found}{f' (at {at})' if at else ''}"
