"""How long autofuse takes from a parsed graph to the text of all files.

    python benchmarks/generate.py                     examples/ and, if there, ../shared/corpus/akg
    python benchmarks/generate.py graphs/ --repeat 5  other graphs
    python benchmarks/generate.py --compile --json    also the time of g++ for the CPU twin

Each graph is read once and built a few times; the median of a graph is what counts. A graph whose
operators autofuse does not know is counted, not measured.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from autofuse.api import DEFAULT_TARGET, build, read
from autofuse.diagnostics import AutofuseError

REPO = Path(__file__).resolve().parent.parent
EXAMPLES = REPO / "examples"
CORPUS = REPO.parent / "shared" / "corpus" / "akg"


def main() -> int:
    """Measure what the command line asks for and print it."""
    args = _arguments()
    folders = args.folders or [f for f in (EXAMPLES, CORPUS) if f.is_dir()]
    reports = [measure(f, args.repeat, args.target, args.limit, args.compile) for f in folders]
    if args.json:
        print(json.dumps({"schema": "autofuse.benchmark.generate/1", "reports": reports}, indent=2))
    else:
        for r in reports:
            show(r)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, help="folders of graph files")
    parser.add_argument("--repeat", type=int, default=3, help="builds per graph (default 3)")
    parser.add_argument("--limit", type=int, default=0, help="at most this many graphs per folder")
    parser.add_argument("--target", default=DEFAULT_TARGET)
    parser.add_argument("--compile", action="store_true", help="measure g++ too, without the cache")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def measure(folder: Path, repeat: int, target: str, limit: int, compiled: bool) -> dict[str, Any]:
    """Times of all graphs of a folder, in milliseconds."""
    rows: list[dict[str, Any]] = []
    left_out: Counter[str] = Counter()
    paths = sorted(folder.rglob("*.json"))
    # Every n-th, not the first ones: neighbours in a corpus are alike.
    for path in paths[:: max(1, len(paths) // limit)] if limit else paths:
        row = _measure_file(path, repeat, target, compiled)
        if isinstance(row, str):
            left_out[row] += 1
        else:
            rows.append(row)
    totals = [r["total_ms"] for r in rows]
    return {
        "folder": folder.name,
        "measured": len(rows),
        "left_out": dict(sorted(left_out.items())),
        "repeat": repeat,
        "target": target,
        "total_ms": _spread(totals),
        "ms_per_op": _spread([r["total_ms"] / max(1, r["ops"]) for r in rows]),
        "stages_ms": {s: _spread([r["stages_ms"][s] for r in rows]) for s in _stages(rows)},
        "compile_over_generate": _spread(
            [r["compile_ms"] / r["total_ms"] for r in rows if r["compile_ms"] is not None]
        ),
        "slowest": sorted(rows, key=lambda r: -r["total_ms"])[:5],
    }


def _measure_file(path: Path, repeat: int, target: str, compiled: bool) -> dict[str, Any] | str:
    """Times of one graph, or the code of the error."""
    try:
        graph = read(path)
        results = [build(graph, target=target) for _ in range(repeat)]
    except AutofuseError as e:
        return e.diagnostics[0].code
    timings = [{k: v for k, v in r.timings.items() if k != "read"} for r in results]
    return {
        "graph": path.stem,
        "ops": len(graph.nodes),
        "total_ms": 1e3 * statistics.median(sum(t.values()) for t in timings),
        "stages_ms": {s: 1e3 * statistics.median(t[s] for t in timings) for s in timings[0]},
        "compile_ms": _compile_ms(results[0].files, graph.name) if compiled else None,
    }


def _compile_ms(files: Any, name: str) -> float:
    from autofuse.twin.compile import compile_kernel

    start = time.perf_counter()
    compile_kernel(files, name, cache=False)
    return 1e3 * (time.perf_counter() - start)


def _stages(rows: Sequence[dict[str, Any]]) -> Iterable[str]:
    return rows[0]["stages_ms"] if rows else ()


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    """Median, 95th percentile (nearest rank) and largest value."""
    if not values:
        return None
    ordered = sorted(values)
    return {
        "median": round(statistics.median(ordered), 3),
        "p95": round(ordered[math.ceil(0.95 * len(ordered)) - 1], 3),
        "max": round(ordered[-1], 3),
    }


def show(report: dict[str, Any]) -> None:
    """One report as text."""
    left_out = ", ".join(f"{n} with {code}" for code, n in report["left_out"].items())
    print(f"{report['folder']}: {report['measured']} graphs, {report['repeat']} builds each")
    if left_out:
        print(f"  not measured: {left_out}")
    print(f"  {'':<22}{'median':>10}{'p95':>10}{'max':>10}")
    lines = {"graph to files, ms": report["total_ms"], "  per op, ms": report["ms_per_op"]}
    lines |= {f"  {name}, ms": spread for name, spread in report["stages_ms"].items()}
    lines["g++ / generate"] = report["compile_over_generate"]
    for name, spread in lines.items():
        if spread is not None:
            numbers = "".join(f"{spread[k]:>10.2f}" for k in ("median", "p95", "max"))
            print(f"  {name:<22}{numbers}")
    for row in report["slowest"][:1]:
        print(f"  slowest: {row['graph']} ({row['ops']} ops, {row['total_ms']:.1f} ms)")


if __name__ == "__main__":
    sys.exit(main())
