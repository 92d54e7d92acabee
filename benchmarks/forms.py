"""What it is worth to compare a graph of known sizes with its reductions divided and as it is, by the cost model.

    python benchmarks/forms.py                              ../shared/corpus/akg
    python benchmarks/forms.py graphs/ --target ascend910b4
    python benchmarks/forms.py --limit 200 --json           some of the graphs

Whether a large reduction is divided among the cores (``implgraph/rewrites/split_reductions.py``) was decided by an
estimate of bytes alone.  Now the scheduler compares the modelled times of the forms that may be worth it, among them
those that are written out otherwise.  Printed are the graphs for which that makes a difference, as time of the form
that is taken over that of the form that the estimate takes, with the start of a kernel.  Times are those of the model;
nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark_words import graph_folder, positive, target_name

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.lowering.lowering import lower_all, lower_written
from autofuse.implgraph.rewrites.decompose import decompose
from autofuse.implgraph.rewrites.narrowing import narrowed
from autofuse.implgraph.rewrites.recognise import recognise
from autofuse.implgraph.rewrites.split_reductions import split_reductions
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule.cost.cost_form import TICK_BITS
from autofuse.schedule.cost.costs import Costs
from autofuse.schedule.cost.solver import modelled_ticks
from autofuse.schedule.scheduler import schedule, schedule_all
from autofuse.targets import TargetSpec, load_target

CORPUS = Path(__file__).resolve().parent.parent.parent / "shared" / "corpus" / "akg"
#: A time that differs by less than this part counts as the same.
SAME = 1e-3


@dataclass(frozen=True)
class Found:
    """Modelled microseconds of a graph: of what is taken, and of what it is compared with."""

    name: str
    forms: int
    us: float
    other_us: float

    @property
    def ratio(self) -> float:
        """Time as taken over that of the other one."""
        return self.us / self.other_us


def compare(graph: FusionGraph, target: TargetSpec) -> Found | None:
    """The forms of a graph; None where sizes are symbols, or nothing is legal."""
    if graph.symbols:
        return None
    try:
        hints = [canonicalise(h) for h in lower_all(graph, target)]
        taken = modelled_ticks(*schedule_all(hints, target), Costs(target))
        written = decompose(recognise(narrowed(graph, target)))
        estimate = canonicalise(lower_written(split_reductions(written, target)))
        by_estimate = modelled_ticks(*schedule(estimate, target), Costs(target))
    except AutofuseError:
        return None
    if taken is None or by_estimate is None:
        return None
    return Found(graph.name, len(hints), in_us(taken, target), in_us(by_estimate, target))


def in_us(ticks: int, target: TargetSpec) -> float:
    """Modelled microseconds of a schedule, with the start of a kernel."""
    return target.kernel_head_us + ticks / (1 << TICK_BITS) / target.clock_mhz


def _changed(found: Sequence[Found]) -> list[Found]:
    return sorted((f for f in found if abs(f.ratio - 1) > SAME), key=lambda f: f.ratio)


def total(found: Sequence[Found], target: TargetSpec) -> dict[str, Any]:
    """Of all graphs, for JSON."""
    ratios = [f.ratio for f in _changed(found)]
    return {
        "target": target.name,
        "graphs": len(found),
        "several_forms": sum(f.forms > 1 for f in found),
        "changed": len(ratios),
        "slower": sum(r > 1 for r in ratios),
        "mean": statistics.geometric_mean(ratios) if ratios else 1.0,
        "median": statistics.median(ratios) if ratios else 1.0,
        "least": min(ratios, default=1.0),
        "most": max(ratios, default=1.0),
    }


def _graphs(folder: Path, limit: int | None) -> Sequence[Path]:
    paths = sorted(folder.rglob("*.json"))
    step = 1 if limit is None else max(len(paths) // limit, 1)
    return paths[::step]


def report(
    about: str, compared: str, compare: Callable[[FusionGraph, TargetSpec], Found | None]
) -> int:
    """The command: reads the options, compares the graphs of a folder and prints what differs.

    Args:
        about: the description of the command.
        compared: what it says of the graphs that differ, with the names of :func:`total`.
        compare: the times of a graph; None where there is nothing to compare.
    """
    parser = argparse.ArgumentParser(description=about.split("\n", 1)[0])
    parser.add_argument("folder", type=graph_folder, nargs="?", help="default: the AKG corpus")
    parser.add_argument("--target", type=target_name, default="ascend910b1", help="the chip")
    parser.add_argument("--limit", type=positive, help="about so many of the graphs")
    parser.add_argument("--json", action="store_true", help="numbers instead of text")
    given = parser.parse_args()
    folder = given.folder or CORPUS
    if not folder.is_dir():
        parser.error(f"{folder} is no folder: name one with graph files")
    target = load_target(given.target)
    found: list[Found] = []
    paths = _graphs(folder, given.limit)
    for i, path in enumerate(paths):
        if sys.stderr.isatty():
            print(f"\r{i} of {len(paths)} graphs", end="", file=sys.stderr)
        try:
            graph = api.read(path)
        except AutofuseError:
            continue
        row = compare(graph, target)
        if row is not None:
            found.append(row)
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    summary = total(found, target)
    if given.json:
        print(json.dumps(summary))
        return 0
    print(f"modelled time on {target.name} (model: nothing was measured)")
    print("{graphs} graphs, {several_forms} of them with several forms".format(**summary))
    print(compared.format(**summary))
    print(
        "mean {mean:.2f}, median {median:.2f}, least {least:.3f}, most {most:.2f}".format(**summary)
    )
    for f in _changed(found)[:10]:
        print(f"  {f.ratio:5.2f}  {f.us:9.2f} us instead of {f.other_us:9.2f}  {f.name}")
    return 0


if __name__ == "__main__":
    words = "{changed} take another form than by the estimate, {slower} of them slower; time over that by the estimate:"
    sys.exit(report(__doc__, words, compare))
