"""Compare the modelled time of kernels with their roofs: the worst first, with a histogram.

    python benchmarks/zoo/roof.py FOLDER -t ascend910b1            graphs that harvest.py wrote
    python benchmarks/zoo/roof.py FILE.json FILE.info --lines 30
    python benchmarks/zoo/roof.py FOLDER --sample 200 --seed 1      200 of the files, drawn with a seed
    python benchmarks/zoo/roof.py FOLDER --json rows.json          every row, for comparing two commits

Every kernel is built, not compiled. Its time is the model's at the hints of its symbols; ``autofuse explain`` says what
the roof is. Graphs that the chip cannot hold, or that are cut into several kernels, are counted and left out.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.report.build_summary import typical_sizes
from autofuse.report.losses import kernel_roof
from autofuse.schedule.search.costs import Costs
from autofuse.targets import load_target

#: Regions with a longer roof are large: for these the ratio counts, for others the microseconds above the roof.
LARGE_US = 10.0
#: Edges of the histogram.
EDGES = (1.0, 1.1, 1.2, 1.35, 1.5, 1.7, 2.0, 2.5, 3.0, 4.0, 8.0)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path, help="graph files, or folders of them")
    parser.add_argument("-t", "--target", default="ascend910b1")
    parser.add_argument("--lines", type=int, default=20, help="rows to print")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    files = sorted(f for p in args.paths for f in ([p] if p.is_file() else _graphs_in(p)))
    if args.sample:
        files = random.Random(args.seed).sample(files, min(args.sample, len(files)))
    with ProcessPoolExecutor(args.jobs) as pool:
        rows = list(pool.map(partial(row, target=args.target), files, chunksize=4))
    if args.json:
        args.json.write_text(json.dumps(rows), encoding="utf-8")
    sys.stdout.write("\n".join(table(rows, args.lines)) + "\n")
    return 0


def _graphs_in(folder: Path) -> Iterable[Path]:
    return (p for end in ("json", "info") for p in folder.rglob(f"*.{end}"))


def row(path: Path, target: str) -> dict[str, Any]:
    """Return the figures of a graph; of one that cannot be built, its path and the error code."""
    chip = load_target(target)
    try:
        built = api.build(path, target=chip)
        found = kernel_roof(
            built.schedule, Costs(chip), typical_sizes(built.graph.symbols), built.graph
        )
    except AutofuseError as e:
        return {"path": str(path), "error": e.diagnostics[0].code}
    if found is None:
        return {"path": str(path), "error": "not legal at its hints"}
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    text = next(t for f, t in built.files.items() if f.startswith("device/"))
    return {
        "path": str(path),
        "name": built.graph.label,
        "ops": Counter(n.op for n in built.graph.nodes),
        "us": found["kernel_us"],
        "roof_us": found["total_us"],
        "times": found["times"],
        "above_us": found["kernel_us"] - found["total_us"],
        "bytes": found["read_bytes"] + found["written_bytes"],
        "groups": found["groups"],
        "barriers": found["barriers"],
        "templates": len(impls),
        "lines": text.count("\n"),
        "statements": sum(map(_calls, impls)),
        "lost": found["lost"],
    }


def _calls(impl: ImplGraph) -> int:
    return sum(n.api is not None for n in impl.nodes)


def table(rows: Sequence[dict[str, Any]], lines: int) -> list[str]:
    """Return the worst rows, a histogram for large and small regions, and the causes."""
    good = [r for r in rows if "times" in r]
    out = ["All times are the model's.", ""]
    for title, part in (
        (f"roof above {LARGE_US:g} us", [r for r in good if r["roof_us"] > LARGE_US]),
        ("small", [r for r in good if r["roof_us"] <= LARGE_US]),
    ):
        if part:
            out += _part(title, part, lines)
    errors = Counter(r["error"] for r in rows if "error" in r)
    out.append(f"{len(good)} kernels" + "".join(f", {n} {code}" for code, n in errors.items()))
    return out


def _part(title: str, rows: Sequence[dict[str, Any]], lines: int) -> list[str]:
    times = sorted(r["times"] for r in rows)
    above = sorted(r["above_us"] for r in rows)

    def at(values: Sequence[float], share: float) -> float:
        return values[min(int(share * len(values)), len(values) - 1)]

    out = [
        f"{title}: {len(rows)} kernels, times the roof: median {statistics.median(times):.2f}, "
        f"p90 {at(times, 0.9):.2f}, worst {times[-1]:.2f}; us above it: median {statistics.median(above):.2f}, "
        f"p90 {at(above, 0.9):.2f}; groups {statistics.mean(r['groups'] for r in rows):.2f}, "
        f"lines {statistics.mean(r['lines'] for r in rows):.0f} in the mean"
    ]
    edges = [0.0, *EDGES, float("inf")]
    counts = [sum(a <= t < b for t in times) for a, b in pairwise(edges)]
    for a, n in zip(edges, counts, strict=False):
        out.append(f"  from {a:4.2f}: {n:5d} {'#' * round(60 * n / len(rows))}")
    causes: Counter[str] = Counter()
    for r in rows:
        causes.update({x["cause"]: x["us"] for x in r["lost"] if x["us"] > 0})
    lost = sum(causes.values())
    out.append(
        "  lost by: " + ", ".join(f"{c} {100 * us / lost:.0f} %" for c, us in causes.most_common())
        if lost
        else ""
    )
    for r in sorted(rows, key=lambda r: -r["times"])[:lines]:
        ops = ", ".join(f"{n} {op}" if n > 1 else op for op, n in Counter(r["ops"]).most_common(7))
        worst = r["lost"][0] if r["lost"] else {"cause": "", "us": 0.0, "text": ""}
        out.append(
            f"  {r['times']:6.2f} {r['us']:9.2f} us, roof {r['roof_us']:8.2f}, {r['groups']} groups, "
            f"{r['barriers']} barriers, {r['templates']} templates, {r['lines']} lines, {r['bytes']} bytes: "
            f"{r['name']}: {ops}; "
            f"{worst['cause']} {worst['us']:.1f}: {worst['text'][:160]}"
        )
    return [*out, ""]


if __name__ == "__main__":
    raise SystemExit(main())
