"""Bank conflicts in UB of the vector calls that autofuse generates, with and without its memory plan's care for them.

    python benchmarks/banks.py                          examples/ and ../shared/corpus/akg, all chips
    python benchmarks/banks.py graphs/ --target ascend910b2
    python benchmarks/banks.py --limit 200 --json       some of the graphs

Counted are element-wise calls of all templates that are legal for a graph's typical sizes, each at the tile that the
cost model finds best.  *Before* is the plan for a chip of which nothing is known about banks: the same buffers, one
after another.  Addresses and times are those of the model; nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmark_words import graph_folder, positive, target_name

from autofuse.api import build
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.report.explanation import sizes_of
from autofuse.schedule.cost.banks import data_operands, halves_of
from autofuse.schedule.cost.cost import Conflict
from autofuse.schedule.cost.solver import best_tiling
from autofuse.schedule.cost.workload import conflicts
from autofuse.targets import TargetSpec, load_target, target_names

REPO = Path(__file__).resolve().parent.parent
FOLDERS = (REPO / "examples", REPO.parent / "shared" / "corpus" / "akg")

#: What is counted of a call that reads two tensors.
FREE, ONE_TENSOR, ODD_RING, LEFT = "free", "one tensor twice", "odd ring", "left"


@dataclass(frozen=True)
class Template:
    """A template at its best tile."""

    name: str
    us: float
    vector: float
    ub: int
    banks: bool
    calls: Counter[str]
    results: int


@dataclass(frozen=True)
class Share:
    """Sums over all templates of one chip."""

    target: str
    graphs: int
    templates: int
    before: Counter[str]
    after: Counter[str]
    results_before: int
    results_after: int
    gave_up: int
    lost: Sequence[str]
    ub_more: float
    faster: float
    slowest: float
    vector: float

    def row(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "target": self.target,
            "graphs": self.graphs,
            "templates": self.templates,
            "two_operand_calls": sum(self.after.values()),
            "before": dict(self.before),
            "after": dict(self.after),
            "result_conflicts_before": self.results_before,
            "result_conflicts_after": self.results_after,
            "templates_without_room": self.gave_up,
            "templates_lost": list(self.lost),
            "ub_more_of_usable": self.ub_more,
            "modelled_us_after_over_before": self.faster,
            "modelled_vector_us_of_two_operand_templates": self.vector,
            "worst_modelled_us_after_over_before": self.slowest,
        }


def main() -> int:
    """Count what the command line asks for and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=graph_folder, help="folders of graph files")
    parser.add_argument(
        "--target", action="append", type=target_name, help="a chip (default all); repeatable"
    )
    parser.add_argument(
        "--limit", type=positive, default=0, help="about so many graphs: every n-th (default all)"
    )
    parser.add_argument("--json", action="store_true", help="numbers instead of tables")
    args = parser.parse_args()
    folders = args.folders or [f for f in FOLDERS if f.is_dir()]
    paths = [p for f in folders for p in sorted(f.rglob("*.json"))]
    # Every n-th, not the first ones: neighbours in a corpus are alike.
    paths = paths[:: max(1, len(paths) // args.limit)] if args.limit else paths
    shares = [count(paths, load_target(t)) for t in args.target or target_names()]
    if args.json:
        rows = [s.row() for s in shares]
        print(json.dumps({"schema": "autofuse.benchmark.banks/1", "targets": rows}, indent=2))
    else:
        show(shares)
    return 0


def count(paths: Sequence[Path], target: TargetSpec) -> Share:
    """The calls of all graphs that can be built for a chip, with and without halves of banks."""
    arch = target.arch
    groups = arch.vector_bytes // arch.block_bytes
    blind = replace(target, arch=replace(arch, ub_bank_groups=groups))
    graphs = 0
    pairs: list[tuple[Template, Template]] = []
    lost: list[str] = []
    for path in paths:
        try:
            after = {t.name: t for t in templates(path, target, target)}
            before = {t.name: t for t in templates(path, blind, target)}
        except AutofuseError:
            continue
        graphs += 1
        lost += sorted(before.keys() - after.keys())
        pairs += [(before[k], after[k]) for k in after if k in before]
    ratios = [a.us / b.us for b, a in pairs]
    return Share(
        target.name,
        graphs,
        len(pairs),
        sum((b.calls for b, _ in pairs), Counter()),
        sum((a.calls for _, a in pairs), Counter()),
        sum(b.results for b, _ in pairs),
        sum(a.results for _, a in pairs),
        sum(not a.banks for _, a in pairs),
        lost,
        sum(a.ub - b.ub for b, a in pairs) / max(1, len(pairs)) / target.ub_usable,
        _mean(ratios),
        max(ratios, default=1.0),
        _mean([a.vector / b.vector for b, a in pairs if a.calls]),
    )


def templates(path: Path, planned: TargetSpec, target: TargetSpec) -> Iterator[Template]:
    """The legal templates of a graph that is ``planned`` for a chip, on ``target`` at the sizes that are typical of it.

    Raises:
        AutofuseError: the graph cannot be built.
    """
    built = build(path, target=planned)
    sizes = sizes_of(built.graph.symbols, {})
    for impl in (i for r in built.schedule for g in r.groups for i in g.impls):
        tiling = best_tiling(impl, target, sizes)
        if tiling is None:
            continue
        calls: Counter[str] = Counter()
        results = 0
        for n, read, found in conflicts(impl, sizes, tiling.tile, target.arch):
            results += found is Conflict.RESULT
            if read > 1:
                why = ONE_TENSOR if len(set(n.inputs)) == 1 else LEFT
                calls[FREE if found is Conflict.NONE else why] += 1
        # Without calls that need it, nothing is put into a half.
        banks = any(b.bank is not None for b in impl.buffers) or not calls[LEFT]
        odd = min(odd_rings(impl), calls[LEFT])
        calls += Counter({ODD_RING: odd, LEFT: -odd})
        env = {**sizes, impl.tiling.tile_size: tiling.tile}
        yield Template(
            impl.name,
            tiling.cost.total,
            tiling.cost.vector,
            impl.tiling.ub.evaluate(env),
            banks,
            calls,
            results,
        )


def odd_rings(impl: ImplGraph) -> int:
    """Calls for which two halves are too few: they close a ring of an odd number of tensors that are to be apart."""
    halves, named = halves_of(impl.nodes), impl.by_name()
    read = [[x.name for x in data_operands(n, named)] for n in impl.nodes]
    pairs = [(r[0], r[1]) for r in read if len(r) == 2 and r[0] != r[1]]
    return sum(not halves.put(a, b, apart=True) for a, b in pairs)


def _mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0


def show(shares: Sequence[Share]) -> None:
    """A Markdown table."""
    titles = (
        *("chip", "graphs", "templates", "calls with two tensors", "free before", "free after"),
        *("one tensor twice", "odd ring", "left", "free of those on two different tensors"),
        *("result and operand, before, after", "no room", "UB, of what is usable"),
        *("modelled time", "worst", "vector unit, of templates with such calls"),
    )
    print("| " + " | ".join(titles) + " |")
    print("|---|" + "--:|" * (len(titles) - 1))
    for s in shares:
        calls = sum(s.after.values())
        apart = calls - s.after[ONE_TENSOR]
        cells = (
            s.target,
            s.graphs,
            s.templates,
            calls,
            _percent(s.before[FREE], calls),
            _percent(s.after[FREE], calls),
            s.after[ONE_TENSOR],
            s.after[ODD_RING],
            s.after[LEFT],
            _percent(s.after[FREE], apart),
            f"{s.results_before}, {s.results_after}",
            s.gave_up,
            f"{100 * s.ub_more:+.2f} %",
            f"x {s.faster:.4f}",
            f"x {s.slowest:.4f}",
            f"x {s.vector:.3f}",
        )
        print("| " + " | ".join(map(str, cells)) + " |")
    for name in (n for s in shares for n in s.lost):
        print(f"no longer among the templates: {name}")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


if __name__ == "__main__":
    raise SystemExit(main())
