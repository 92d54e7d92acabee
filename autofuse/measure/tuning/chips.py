"""Tilings of a kernel for an Ascend chip: candidates and their measurement."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import Any

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.codegen.backends.ascendc.tuning import Tiling, Tilings
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import to_json
from autofuse.measure.tuning.contest import Candidate, Contest, Sizes
from autofuse.report.tuned_choice import tuned_us
from autofuse.results import BuildResult
from autofuse.schedule.search.candidates import candidates, legal_everywhere, searched
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.given import GivenTile, GivenTiling
from autofuse.targets import TargetSpec

__all__ = ["MOST_CANDIDATES", "ChipWork", "Range", "TilingCandidates"]

#: Most candidates of one shape: rows of the table that a kernel is built with.
MOST_CANDIDATES = 128


@dataclass(frozen=True, slots=True)
class Range:
    """A shape, or a range of shapes.

    Attributes:
        sizes: the least and the largest value of each symbol.
    """

    sizes: Mapping[str, tuple[int, int]]

    @property
    def points(self) -> tuple[Sizes, ...]:
        """The measured shapes: the ends of the range, and their geometric mean."""
        low = {n: a for n, (a, _) in self.sizes.items()}
        high = {n: b for n, (_, b) in self.sizes.items()}
        middle = {n: _between(a, b) for n, (a, b) in self.sizes.items()}
        found: list[Sizes] = []
        for point in (low, middle, high):
            if point not in found:
                found.append(point)
        return tuple(found)


def _between(a: int, b: int) -> int:
    return min(max(isqrt(max(a, 1) * max(b, 1)), a), b)


@dataclass(frozen=True, slots=True)
class _Payload:
    """A candidate in a kernel.

    Attributes:
        files: of the kernel, as JSON.
        key: the tiling key that selects it; None: the host function's choice.
        groups: the choice per group; empty for the host function's.
    """

    files: str
    key: int | None
    groups: tuple[GivenTile, ...]


class ChipWork:
    """Jobs for a worker with a chip, or with the twin.

    Args:
        job: one of :mod:`autofuse.measure.tuning.jobs`.
        graph: the graph that the kernel computes.
        seed: seed of the data.
        target: name or file of the chip whose model predicts times, for the twin.
        figures: text of a target file that replaces it; empty: none.
    """

    def __init__(
        self, job: str, graph: FusionGraph, seed: int, *, target: str, figures: str = ""
    ) -> None:
        self.job, self._seed, self._target, self._figures = job, seed, target, figures
        self._graph = json.dumps(to_json(graph))

    def item(
        self, device: str, chosen: Sequence[Candidate], sizes: Sizes, rounds: int
    ) -> dict[str, Any]:
        """Return the item, as :class:`~autofuse.measure.tuning.devices.Work`."""
        texts = list(dict.fromkeys(c.payload.files for c in chosen))
        return {
            "graph": self._graph,
            "texts": texts,
            "items": [[texts.index(c.payload.files), c.payload.key] for c in chosen],
            "device": device,
            "sizes": dict(sizes),
            "seed": self._seed,
            "rounds": rounds,
            "target": self._target,
            "figures": self._figures,
        }


@dataclass(slots=True)
class TilingCandidates:
    """Candidates of a graph at one shape, or a range of shapes.

    Attributes:
        built: the compiler's build of the kernel.
        target: the chip.
        range: the shapes.
        top: candidates of each template.
    """

    built: BuildResult
    target: TargetSpec
    range: Range
    top: int
    _costs: Costs = field(init=False)

    def __post_init__(self) -> None:
        self._costs = Costs(self.target)

    @property
    def default(self) -> Candidate:
        """The candidate that the host function finds."""
        us = tuple(self._default_us(s) for s in self.range.points)
        payload = _Payload(_text(self.built), None, ())
        return Candidate("default", "default", payload, us)

    def tune(self, contest: Contest) -> None:
        """Tune each group separately, then the best choices of all groups together.

        Raises:
            AutofuseError: as :meth:`Contest.screen`; AF5007, no tiling is legal for these sizes.
        """
        found = self._found()
        if not found:
            text = "no template is legal for these sizes"
            raise AutofuseError.of("AF5007", text, hint="autofuse explain shows why")
        contest.screen(self._candidates(found))
        together = self._together(contest, found)
        if together is not None:
            contest.screen(self._candidates([together]))

    def row(self, winner: Candidate) -> Tiling:
        """Return the row of a tuning file for a candidate."""
        labels = self.built.graph.symbol_labels()
        ranges = {labels[n]: ends for n, ends in self.range.sizes.items()}
        return Tiling(ranges, winner.payload.groups)

    def _default_us(self, sizes: Sizes) -> float:
        from autofuse.measure.bench.subjects import chosen

        return chosen(self.built, sizes).us or 0.0

    def _found(self) -> list[GivenTiling]:
        """Return candidates that are legal at all shapes, interleaved over the shapes, the best first."""
        points, results = self.range.points, self.built.schedule
        own = [candidates(results, self._costs, s, self.top) for s in points]
        most = max(map(len, own))
        mixed = {c.groups: c for i in range(most) for o in own for c in o[i : i + 1]}
        legal = legal_everywhere(tuple(mixed.values()), results, self._costs, points)
        return list(legal)[:MOST_CANDIDATES]

    def _together(self, contest: Contest, found: Sequence[GivenTiling]) -> GivenTiling | None:
        """Combine the best choice found for each group of the best form."""
        ratios = {t.groups: contest.ratios.get(_key(t)) for t in found}
        known = {g: r for g, r in ratios.items() if r is not None}
        if not known:
            return None
        best = min(known, key=lambda g: known[g])
        for r in self.built.schedule:
            start = searched(r, self._costs, self.range.points[0])
            if start is None or len(start) != len(best) or len(start) < 2:
                continue
            same = {
                g: v for g, v in known.items() if _differ(g, start) <= 1 and len(g) == len(start)
            }
            if best not in same:
                continue
            groups = tuple(
                min(same, key=lambda g: same[g] if _only(g, start, i) else same.get(start, 1.0))[i]
                for i in range(len(start))
            )
            merged = GivenTiling({}, groups)
            legal = legal_everywhere([merged], self.built.schedule, self._costs, self.range.points)
            return next(legal, None) if groups not in known else None
        return None

    def _candidates(self, found: Sequence[GivenTiling]) -> list[Candidate]:
        """Return candidates as keys of one kernel, which is built with all of them."""
        labels = self.built.graph.symbol_labels()
        point = self.range.points[0]
        # A row must be legal at the ends of its range; a key selects it at all sizes.
        sizes = {labels[n]: (s, s) for n, s in point.items()}
        rows = [Tiling(sizes, t.groups) for t in found]
        tilings = Tilings.of(self.built.graph, self.target.name, rows)
        built = api.build(self.built.graph, target=self.target, tuning=tilings)
        text, first = _text(built), len(built.metadata["tilingKeys"])
        return [
            Candidate(_key(t), _label(t), _Payload(text, first + i, t.groups), tuple(self._us(t)))
            for i, t in enumerate(found)
        ]

    def _us(self, t: GivenTiling) -> Iterator[float]:
        for s in self.range.points:
            yield tuned_us(t, self.built.schedule, self._costs, s)


def _text(built: BuildResult) -> str:
    return json.dumps(dict(built.files))


def _key(t: GivenTiling) -> str:
    return json.dumps([[g.template, g.tile, g.cores] for g in t.groups])


def _label(t: GivenTiling) -> str:
    return " + ".join(f"{g.template} x {g.tile} on {counted(g.cores, 'core')}" for g in t.groups)


def _differ(a: Sequence[GivenTile], b: Sequence[GivenTile]) -> int:
    return sum(x != y for x, y in zip(a, b, strict=False))


def _only(a: Sequence[GivenTile], b: Sequence[GivenTile], at: int) -> bool:
    """Return True if all groups but ``at`` are equal."""
    return all(x == y for i, (x, y) in enumerate(zip(a, b, strict=True)) if i != at)
