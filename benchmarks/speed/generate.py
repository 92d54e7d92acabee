"""Time autofuse from a parsed graph to the text of all files.

    python benchmarks/speed/generate.py                     examples/ and, if there, ../shared/corpus/akg
    python benchmarks/speed/generate.py graphs/ --repeat 5  other graphs
    python benchmarks/speed/generate.py --compile --json    also the time of g++ for the CPU twin, at --opt
    python benchmarks/speed/generate.py examples --cold 9   also `autofuse build` of one graph, in fresh processes
    python benchmarks/speed/generate.py --jobs 2            also `autofuse build DIR`, once
    python benchmarks/speed/generate.py --collect-rarely    with the garbage collection of autofuse's commands

Each graph is read once and built a few times, in passes over all graphs, so that no build benefits from
its previous one; the median per graph counts.  Times are processor time, which excludes the time of
other processes; those of the stages are wall time.  A graph with operators unknown to autofuse is
counted, not measured.

Builds run as in a program that imports autofuse: Python's default garbage collection also scans the graphs that this
script holds.  Commands of autofuse collect more rarely; ``--collect-rarely`` measures that.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autofuse.api import DEFAULT_TARGET, build, read
from autofuse.base.collecting import collect_rarely
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.targets import target_names

REPO = Path(__file__).resolve().parents[2]
EXAMPLES = REPO / "examples"
CORPUS = REPO.parent / "shared" / "corpus" / "akg"


def main() -> int:
    """Measure the requested graphs and print the results."""
    args = _arguments()
    if args.collect_rarely:
        collect_rarely()
    folders = args.folders or [f for f in (EXAMPLES, CORPUS) if f.is_dir()]
    reports = [measure(f, args) for f in folders]
    if args.json:
        print(json.dumps({"schema": "autofuse.benchmark.generate/2", "reports": reports}, indent=2))
    else:
        for r in reports:
            show(r)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, help="folders of graph files")
    parser.add_argument("--repeat", type=int, default=3, help="builds per graph (default 3)")
    parser.add_argument(
        "--limit",
        type=int,
        default=0,
        help="about so many graphs per folder: every n-th (default all)",
    )
    parser.add_argument(
        "--target",
        choices=target_names(),
        default=DEFAULT_TARGET,
        help=f"(default {DEFAULT_TARGET})",
    )
    parser.add_argument("--compile", action="store_true", help="measure g++ too, without the cache")
    parser.add_argument(
        "--opt",
        default="-O2",
        choices=("-O0", "-O1", "-O2", "-O3"),
        help="its level of optimisation, as --opt=-O1 (default -O2)",
    )
    parser.add_argument("--cold", type=int, default=0, help="builds of one graph by new processes")
    parser.add_argument("--jobs", type=int, default=0, help="build the folder with so many workers")
    parser.add_argument(
        "--collect-rarely", action="store_true", help="collect garbage as `autofuse build` does"
    )
    parser.add_argument("--json", action="store_true", help="numbers instead of tables")
    return parser.parse_args()


def measure(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Return the times of all graphs of a folder, in milliseconds."""
    paths = sorted(folder.rglob("*.json"))
    # Every n-th instead of the first ones: neighbours in a corpus are alike.
    if args.limit:
        paths = paths[:: max(1, len(paths) // args.limit)]
    graphs: list[tuple[Path, FusionGraph]] = []
    left_out: Counter[str] = Counter()
    for path in paths:
        try:
            graphs.append((path, read(path)))
        except AutofuseError as e:  # noqa: PERF203
            left_out[e.diagnostics[0].code] += 1
    for _, graph in graphs[:5]:
        _build_ms(graph, args.target)  # one-time work of a process
    found: dict[Path, list[dict[str, float]]] = {}
    for turn in range(args.repeat):
        for path, graph in graphs:
            times = _build_ms(graph, args.target)
            if isinstance(times, str):
                left_out[times] += turn == 0
            else:
                found.setdefault(path, []).append(times)
    rows = [_row(path, graph, found[path], args) for path, graph in graphs if path in found]
    totals = [r["total_ms"] for r in rows]
    return {
        "folder": folder.name,
        "measured": len(rows),
        "left_out": dict(sorted(left_out.items())),
        "repeat": args.repeat,
        "target": args.target,
        "collect_rarely": args.collect_rarely,
        "total_ms": _spread(totals),
        "ms_per_op": _spread([r["total_ms"] / max(1, r["ops"]) for r in rows]),
        "stages_ms": {s: _spread([r["stages_ms"][s] for r in rows]) for s in _stages(rows)},
        "compile_ms": _spread([r["compile_ms"] for r in rows if r["compile_ms"] is not None]),
        "compile_over_generate": _spread(
            [r["compile_ms"] / r["total_ms"] for r in rows if r["compile_ms"] is not None]
        ),
        "cold_ms": _cold_ms(paths[0], args) if args.cold else None,
        "folder_s": _folder_s(folder, args) if args.jobs else None,
        "slowest": sorted(rows, key=lambda r: -r["total_ms"])[:5],
    }


def _build_ms(graph: FusionGraph, target: str) -> dict[str, float] | str:
    """Return the times of one build by stage, and ``total``; or the error code."""
    start = time.process_time()
    try:
        result = build(graph, target=target)
    except AutofuseError as e:
        return e.diagnostics[0].code
    total = time.process_time() - start
    stages = {k: 1e3 * v for k, v in result.timings.items() if k != "read"}
    return {**stages, "total": 1e3 * total}


def _row(
    path: Path, graph: FusionGraph, found: Sequence[Mapping[str, float]], args: argparse.Namespace
) -> dict[str, Any]:
    medians = {stage: statistics.median(f[stage] for f in found) for stage in found[0]}
    return {
        "graph": path.stem,
        "ops": len(graph.nodes),
        "total_ms": medians.pop("total"),
        "stages_ms": medians,
        "compile_ms": _compile_ms(graph, args) if args.compile else None,
    }


def _compile_ms(graph: FusionGraph, args: argparse.Namespace) -> float:
    from autofuse.machines.twin.run.compile import compile_kernel

    files = build(graph, target=args.target).files
    before = _children()
    compile_kernel(files, graph.name, cache=False, opt=args.opt)
    return 1e3 * (_children() - before)


def _cold_ms(path: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Time whole processes of `autofuse build` of one graph: processor time and wall clock."""
    cpu, wall = [], []
    with tempfile.TemporaryDirectory() as out:
        for _ in range(args.cold + 1):
            before, start = _children(), time.perf_counter()
            _command(["build", str(path), "-o", out, "-t", args.target])
            wall.append(1e3 * (time.perf_counter() - start))
            cpu.append(1e3 * (_children() - before))
    # The first process may compile Python modules.
    return {"graph": path.stem, "cpu": _spread(cpu[1:]), "wall": _spread(wall[1:])}


def _folder_s(folder: Path, args: argparse.Namespace) -> dict[str, float]:
    """Time `autofuse build` of a whole folder, once: seconds of processor and wall clock."""
    before, start = _children(), time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        _command(["build", str(folder), "-o", out, "-t", args.target, "-j", str(args.jobs)])
    return {"cpu": round(_children() - before, 2), "wall": round(time.perf_counter() - start, 2)}


def _command(words: Sequence[str]) -> None:
    subprocess.run([sys.executable, "-m", "autofuse", *words], stdout=subprocess.DEVNULL)


def _children() -> float:
    """Return the processor seconds of finished child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _stages(rows: Sequence[dict[str, Any]]) -> Iterable[str]:
    return rows[0]["stages_ms"] if rows else ()


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    """Return median, 95th percentile (nearest rank) and largest value."""
    if not values:
        return None
    ordered = sorted(values)
    return {
        "median": round(statistics.median(ordered), 3),
        "p95": round(ordered[math.ceil(0.95 * len(ordered)) - 1], 3),
        "max": round(ordered[-1], 3),
    }


def show(report: dict[str, Any]) -> None:
    """Print a report as text."""
    left_out = ", ".join(f"{n} with {code}" for code, n in report["left_out"].items())
    rarely = ", garbage collected as rarely as by the commands" if report["collect_rarely"] else ""
    print(
        f"{report['folder']}: {report['measured']} graphs, {report['repeat']} builds each{rarely}"
    )
    if left_out:
        print(f"  not measured: {left_out}")
    print(f"  {'':<22}{'median':>10}{'p95':>10}{'max':>10}")
    lines = {"graph to files, ms": report["total_ms"], "  per op, ms": report["ms_per_op"]}
    lines |= {f"  {name}, ms": spread for name, spread in report["stages_ms"].items()}
    lines["g++, ms"] = report["compile_ms"]
    lines["g++ / generate"] = report["compile_over_generate"]
    cold = report["cold_ms"] or {"cpu": None, "wall": None}
    lines |= {"cold build, cpu ms": cold["cpu"], "cold build, wall ms": cold["wall"]}
    for name, spread in lines.items():
        if spread is not None:
            numbers = "".join(f"{spread[k]:>10.2f}" for k in ("median", "p95", "max"))
            print(f"  {name:<22}{numbers}")
    if report["folder_s"] is not None:
        seconds = report["folder_s"]
        print(f"  build of the folder: {seconds['wall']} s, {seconds['cpu']} s of processor time")
    for row in report["slowest"][:1]:
        print(f"  slowest: {row['graph']} ({row['ops']} ops, {row['total_ms']:.1f} ms)")


if __name__ == "__main__":
    sys.exit(main())
