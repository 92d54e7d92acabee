"""Verify every graph of a folder on the CPU twin, and count by class.

    python benchmarks/corpus/corpus.py [FOLDER] [--limit N] [--check-seed N]... [--jobs N] [--json] ...

A graph runs with its own shapes if no tensor has more than 2**20 elements; otherwise it is shrunk first
(``autofuse.implgraph.cutting.dimensions.shrink``).  Every ``--check-seed`` adds a run of every graph: 0, the default,
executes instructions in program order, any other number in a hostile order that a chip may choose.
Times are of this machine's CPU, not of the chip.
Exit status 0 if every supported graph passed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.commands.graph_files import UNSUPPORTED
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ops.registry import lookup
from autofuse.machines.twin.run.worker import Outcome, WorkerPool

JOB = "autofuse.commands.kernels.jobs:verify_job"
DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "akg"


@dataclass(frozen=True, slots=True)
class Row:
    """Outcome of one file in one order of instructions.

    ``total_s`` includes build, compilation, run and everything else.
    """

    path: str
    check_seed: int
    classes: tuple[str, ...]
    state: str
    codes: tuple[str, ...] = ()
    message: str = ""
    keys: int = 0
    cases: int = 0
    max_ulp: float = 0.0
    ill_conditioned: int = 0
    build_s: float = 0.0
    compile_s: float = 0.0
    total_s: float = 0.0


def classes_of(graph: FusionGraph, path: Path) -> tuple[str, ...]:
    """Return the classes of a graph, for counting; a graph may be in several."""
    kinds = {lookup(n.op).compute_type for n in graph.nodes}
    found = []
    if "broadcast" in kinds or _broadcasts(graph):
        found.append("broadcast")
    if "view" in kinds:
        found.append("reshape")
    if "reduce" in kinds:
        found.append("reduction")
    if any(n.op == "Transpose" for n in graph.nodes):
        found.append("transpose")
    if any(o.inout for o in graph.outputs):
        found.append("assign")
    if b'"parallel_fusion"' in path.read_bytes():
        found.append("parallel groups")
    return tuple(found) or ("elementwise only",)


def _broadcasts(graph: FusionGraph) -> bool:
    """Return True if an op combines tensors of different shapes."""
    return any(
        graph.tensors[x].shape != graph.tensors[n.outputs[0]].shape
        for n in graph.nodes
        if lookup(n.op).compute_type == "elewise"
        for x in n.inputs
        if isinstance(x, str)
    )


def row_of(outcome: Outcome) -> Row:
    """Return the row of a finished job."""
    path, order = Path(outcome.item["path"]), outcome.item["check_seed"]
    if not outcome.ok:
        codes = tuple(sorted({d.code for d in outcome.diagnostics}))
        unsupported = set(codes) <= UNSUPPORTED
        state = "unsupported" if unsupported else "failed"
        first = outcome.diagnostics[0].message
        return Row(str(path), order, _classes(path), state, codes, first, total_s=outcome.seconds)
    report: dict[str, Any] = outcome.value["report"]
    errors = [d for d in report["diagnostics"] if d["severity"] == "error"]
    outputs = [o for c in report["cases"] for o in c["outputs"]]
    return Row(
        str(path),
        order,
        _classes(path),
        "passed" if report["ok"] else "failed",
        tuple(sorted({d["code"] for d in errors})),
        errors[0]["message"] if errors else "",
        outcome.value["keys"],
        sum(c["status"] != "not applicable" for c in report["cases"]),
        max((o["max_ulp"] for o in outputs), default=0.0),
        sum(o["ill_conditioned"] for o in outputs),
        outcome.value["seconds"],
        report["compile_seconds"],
        outcome.seconds,
    )


def _classes(path: Path) -> tuple[str, ...]:
    try:
        return classes_of(api.read(path), path)
    except AutofuseError:
        return ("unsupported",)


def summary(rows: Iterable[Row], seconds: float) -> dict[str, Any]:
    """Return counts of files and runs by state, class and code, and times."""
    rows = list(rows)
    by_class: dict[str, Counter[str]] = {}
    for r in rows:
        for c in r.classes:
            by_class.setdefault(c, Counter())[r.state] += 1
    ran = [r for r in rows if r.cases]
    return {
        "files": len({r.path for r in rows}),
        "check_seeds": sorted({r.check_seed for r in rows}),
        "states": dict(Counter(r.state for r in rows)),
        "classes": {c: dict(n) for c, n in sorted(by_class.items())},
        "codes": dict(Counter(c for r in rows if r.state == "failed" for c in r.codes)),
        "cases": sum(r.cases for r in ran),
        "max_ulp": max((r.max_ulp for r in ran if r.state == "passed"), default=0.0),
        "ill_conditioned": sum(r.ill_conditioned for r in ran),
        "build_s": sum(r.build_s for r in rows),
        "compile_s": sum(r.compile_s for r in rows),
        "wall_s": seconds,
    }


def print_text(found: dict[str, Any], rows: Iterable[Row]) -> None:
    """Print the failures, then the counts."""
    for r in rows:
        if r.state == "failed":
            order = f" (order {r.check_seed})" if r.check_seed else ""
            print(f"FAILED {' '.join(r.codes)} {r.path}{order}\n    {r.message}")
    orders = found["check_seeds"]
    runs = f", each with --check-seed {' and '.join(map(str, orders))}" if orders != [0] else ""
    print(f"{found['files']} files{runs}: {_counts(found['states'])}")
    for name, n in found["classes"].items():
        print(f"  {name:18} {_counts(n)}")
    if found["codes"]:
        print(f"failures: {_counts(found['codes'])}")
    print(f"{found['cases']} runs, largest difference of a passed one {found['max_ulp']:.3g} ulp")
    took = ", ".join(f"{k} {found[k + '_s']:.1f} s" for k in ("build", "compile", "wall"))
    print(f"on this CPU: {took}")


def _counts(n: dict[str, int]) -> str:
    return ", ".join(f"{v} {k}" for k, v in sorted(n.items()))


def main(argv: list[str] | None = None) -> int:
    """Run the script and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--limit", type=int, help="only so many files, chosen by the seed")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--seed", type=int, default=0, help="of the data and of --limit")
    parser.add_argument(
        "--check-seed",
        type=int,
        action="append",
        metavar="N",
        help="order of instructions; 0: that of the program, else hostile; repeatable",
    )
    parser.add_argument("--target", default=api.DEFAULT_TARGET)
    parser.add_argument("--shapes", type=int, default=3, help="sizes of a dynamic graph")
    parser.add_argument("--symbolic", action="store_true", help="make fixed sizes dynamic first")
    parser.add_argument("--max-elements", type=int, default=1 << 20)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    args = parser.parse_args(argv)
    paths = sorted(args.folder.rglob("*.json"))
    if not paths:
        parser.error(f"there is no .json file in {args.folder}")
    if args.limit is not None and args.limit < len(paths):
        paths = sorted(random.Random(args.seed).sample(paths, args.limit))
    # Run the orders of one graph consecutively: from the second on, the compiled kernel is cached.
    orders = tuple(dict.fromkeys(args.check_seed or [0]))
    options = {
        "target": args.target,
        "shapes": args.shapes,
        "seed": args.seed,
        "max_elements": args.max_elements,
        "symbolic": args.symbolic,
    }
    start = time.perf_counter()
    rows = []
    for outcome in WorkerPool(JOB, workers=args.jobs).map(
        {"path": str(p), "check_seed": order, **options} for p in paths for order in orders
    ):
        rows.append(row_of(outcome))
        if not args.json and sys.stderr.isatty():
            print(f"\r{len(rows)} of {len(paths) * len(orders)}", end="", file=sys.stderr)
    found = summary(rows, time.perf_counter() - start)
    if args.json:
        print(json.dumps({"summary": found, "rows": [asdict(r) for r in rows]}, indent=1))
    else:
        print_text(found, rows)
    return 0 if found["states"].get("failed", 0) == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
