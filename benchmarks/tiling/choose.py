"""Compare the tiling solver's choice with the best of all tilings, by its own model.

    python benchmarks/tiling/choose.py [--points 10000] [--seed 1] [--targets ascend910b2,ascend910b4] [--json]

A point is a graph of ``choose_graphs.py``, random sizes and a chip.  For every point the solver chooses template,
tile, tiles per core and cores as the generated host code does (a test compares the two), and ``exhaustive.py``
evaluates every legal choice.  The output is the ratio of the modelled time of the choice to that of the best, with and
without the start of a kernel: median, p90, p99 and worst.  Times come from the model; nothing is measured.

Both follow the rule that a template that reloads rows must be a quarter better than one that does not
(``schedule.search.solver.comparable``), so costs are compared under this rule.  The modelled cost of the rule itself is
printed too: the time of the best choice that follows it over that of the best of all.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from choose_graphs import GRAPHS, kind_of, random_sizes
from exhaustive import best_of_all

from autofuse import api
from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.search.bound import BoundForm, Chip, Tiled, bind, chip_figures, search
from autofuse.schedule.search.cost_form import cost_form
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.form import CostForm
from autofuse.schedule.search.solver import comparable
from autofuse.targets import TargetSpec, load_target

__all__ = ["Kernel", "Point", "kernels", "points", "quantile"]

TARGETS = ("ascend910b2", "ascend910b4")


@dataclass(frozen=True, slots=True)
class Kernel:
    """One group of a graph on a chip: its templates with their costs."""

    name: str
    target: TargetSpec
    chip: Chip
    symbols: tuple[str, ...]
    templates: tuple[tuple[ImplGraph, CostForm], ...]


@dataclass(frozen=True, slots=True)
class Point:
    """A choice, the best of all, and the start of the kernel, in cycles.

    Attributes:
        chosen, best: the choices, with their costs under the rule.
        ruled, free: modelled cycles of the best choice with and without the rule about reloading.
        runs: iterations of a core's loop over tiles, as chosen.
    """

    kernel: str
    target: str
    sizes: dict[str, int]
    chosen: Tiled
    best: Tiled
    start: float
    ruled: float
    free: float
    runs: int

    @property
    def ratio(self) -> float:
        """Ratio of the time of the choice to that of the best, with the start."""
        return (self.chosen.cycles + self.start) / (self.best.cycles + self.start)

    @property
    def ratio_without_start(self) -> float:
        """Ratio of the time of the choice to that of the best, without the start."""
        return self.chosen.cycles / self.best.cycles


def kernels(targets: Sequence[str]) -> list[Kernel]:
    """Return the groups of all graphs on these chips."""
    out = []
    for name in targets:
        target = load_target(name)
        for graphs in GRAPHS.values():
            for graph in graphs.values():
                built = api.build(graph, target=target)
                symbols = tuple(s.name for s in built.graph.symbols)
                for result in built.schedule:
                    for g in result.groups:
                        forms = tuple((i, cost_form(i, target)) for i in g.impls)
                        kernel = Kernel(graph["name"], target, chip_figures(target), symbols, forms)
                        out.append(kernel)
    return out


def points(of: Sequence[Kernel], count: int, seed: int) -> list[Point]:
    """Return random points, not counting those without a legal template."""
    random_ = random.Random(seed)
    out: list[Point] = []
    while len(out) < count:
        kernel = random_.choice(of)
        found = point(kernel, random_sizes(kernel.symbols, random_))
        if found is not None:
            out.append(found)
    return out


def point(kernel: Kernel, sizes: dict[str, int]) -> Point | None:
    """Return the choice for these sizes and the best of all; None if no template is legal."""
    legal = [(b, i) for i, f in kernel.templates if (b := _bound(i, f, sizes)) is not None]
    bound = [b for b, _ in legal]
    if not bound:
        return None
    chosen: Tiled | None = None
    taken = 0
    best: list[tuple[float, Tiled]] = []
    costs = Costs(kernel.target)
    for place, (b, impl) in enumerate(legal):
        found, least = search(b, kernel.chip), best_of_all(b, kernel.chip)
        if found is None or least is None:
            raise ValueError(f"{kernel.name} {sizes}: a legal template without a tiling")
        found = _counted(found, impl, costs)
        if chosen is None or found.cycles < chosen.cycles:
            chosen, taken = found, place
        best.append((least.cycles, _counted(least, impl, costs)))
    assert chosen is not None
    start = kernel.target.kernel_head_us * kernel.target.clock_mhz
    return Point(
        kernel.name,
        kernel.target.name,
        sizes,
        chosen,
        min(best, key=lambda s: s[1].cycles)[1],
        start,
        min(best, key=lambda s: s[1].cycles)[0],
        min(cycles for cycles, _ in best),
        _runs(bound[taken], chosen),
    )


def _counted(found: Tiled, impl: ImplGraph, costs: Costs) -> Tiled:
    """Return a choice with its cycles under the rule."""
    return replace(found, cycles=comparable(found.cycles, impl, costs))


def _bound(impl: ImplGraph, form: CostForm, sizes: dict[str, int]) -> BoundForm | None:
    try:
        if not all(c.holds(sizes) for c in impl.tiling.conditions):
            return None
        bound = bind(form, impl.tiling, sizes)
    except (ExprError, OverflowError):
        return None
    return bound if bound.largest else None


def _runs(form: BoundForm, chosen: Tiled) -> int:
    """Return the iterations of a core's loop over tiles, including those of the reduce loop."""
    pieces = -(-form.extent // chosen.tile)
    return chosen.per_core * form.reduce_outer * (pieces if form.looped else 1)


def quantile(values: Sequence[float], q: float) -> float:
    """Return the value that a fraction ``q`` of the sorted values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(q * len(ordered)), len(ordered) - 1)]


def _row(title: str, found: Sequence[Point]) -> str:
    ratios = [p.ratio for p in found]
    alone = [p.ratio_without_start for p in found]
    cells = [f"{quantile(ratios, q):8.4f}" for q in (0.5, 0.9, 0.99, 1.0)]
    cells += [f"{quantile(alone, q):8.4f}" for q in (0.99, 1.0)]
    equal = sum(r < 1.0005 for r in ratios) / len(ratios)
    return f"{title:16} {len(found):6} {' '.join(cells)} {100 * equal:6.1f} %"


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--points", type=int, default=10_000, help="how many (default 10000)")
    parser.add_argument(
        "--seed", type=int, default=1, help="of graphs, sizes and chips (default 1)"
    )
    parser.add_argument(
        "--targets", default=",".join(TARGETS), help=f"chips (default {','.join(TARGETS)})"
    )
    parser.add_argument("--json", action="store_true", help="numbers instead of tables")
    given = parser.parse_args()
    of = kernels(given.targets.split(","))
    found = points(of, given.points, given.seed)
    worst = max(found, key=lambda p: p.ratio)
    if given.json:
        rows = {k: quantile([p.ratio for p in found], q) for k, q in (("p99", 0.99), ("worst", 1))}
        print(
            json.dumps(
                {"points": len(found), "median": quantile([p.ratio for p in found], 0.5), **rows}
            )
        )
        return 0
    print("modelled time of the choice over that of the best of all (model: nothing was measured)")
    print(
        f"{'':16} {'points':>6} {'median':>8} {'p90':>8} {'p99':>8} {'worst':>8} without start: p99, worst; equal"
    )
    for kind in GRAPHS:
        some = [p for p in found if kind_of(p.kernel) == kind]
        if some:
            print(_row(kind, some))
    print(_row("all", found))
    print(
        f"worst: {worst.kernel} {worst.sizes} on {worst.target}: tile {worst.chosen.tile} on "
        f"{worst.chosen.cores} cores, best {worst.best.tile} on {worst.best.cores}"
    )
    paid = [(p.ruled + p.start) / (p.free + p.start) for p in found]
    cells = [f"{quantile(paid, q):.4f}" for q in (0.5, 0.9, 0.99, 1.0)]
    decided = sum(p.ruled > p.free for p in found) / len(found)
    print(
        "the rule about loading rows again costs: median, p90, p99, most: "
        f"{' '.join(cells)}; it decides {decided:.1%} of the points"
    )
    return 0


if __name__ == "__main__":
    sys.exit(_main())
