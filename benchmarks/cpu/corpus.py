"""Verify graphs of a folder as C++ loops on this machine against NumPy, at their own sizes.

    python benchmarks/cpu/corpus.py [FOLDER] [--sample N] [--out rows.jsonl] [--memory GIB] [--jobs N]

A graph whose reference needs more memory than ``--memory`` GiB is shrunk until it fits
(``autofuse.implgraph.cutting.dimensions.shrink``), and listed.  Every graph is one line of ``--out``; a graph with a
line there is not run again, so an interrupted run can resume.  Of graphs with the same code that differ only in names,
one runs.  ``--sample`` takes a fixed sample of N files.
Exit status 0 if every graph that autofuse reads passed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.commands.graph_files import UNSUPPORTED
from autofuse.commands.kernels.verifying import JOB
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.oracle import shape_of
from autofuse.machines.twin.oracle.sizes import largest_tensor
from autofuse.machines.twin.run.worker import Outcome, WorkerPool

DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "akg"
#: Bytes per element in the reference: value and bound in float64, and as much again while an op is computed.
_WIDE = 32
#: Default sizes of symbols without a hint.
_TYPICAL = 16


def reference_bytes(graph: FusionGraph) -> int:
    """Estimate the peak bytes of a graph's reference: all tensors with later uses."""
    sizes = {s.name: s.hint or min(max(s.min, _TYPICAL), s.max) for s in graph.symbols}
    count: dict[str, int] = {}
    for name, t in graph.tensors.items():
        n = 1
        for d in shape_of(t.shape, sizes):
            n *= d
        count[name] = n
    last = {x: k for k, n in enumerate(graph.nodes) for x in n.inputs if isinstance(x, str)}
    last |= {o.tensor: len(graph.nodes) for o in graph.outputs}
    # An input exists twice, for NumPy and for the kernel.
    held = sum(2 * count[x] * graph.tensors[x].dtype.itemsize for x in graph.inputs)
    live, most = 0, 0
    for k, n in enumerate(graph.nodes):
        live += sum(count[o] for o in n.outputs)
        most = max(most, live)
        live -= sum(
            count[x]
            for x in {*n.inputs, *n.outputs}
            if isinstance(x, str) and last.get(x, k) <= k and x not in graph.inputs
        )
    return held + _WIDE * most


def item(path: Path, budget: int, claims: Path) -> dict[str, Any] | None:
    """Return the worker job for a file; None if autofuse cannot read it as a graph."""
    try:
        graph = api.read(path)
    except AutofuseError:
        return None
    sizes = {s.name: s.hint or min(max(s.min, _TYPICAL), s.max) for s in graph.symbols}
    most, needed = largest_tensor(graph, sizes), reference_bytes(graph)
    return {
        "path": str(path),
        "target": "cpu",
        "shapes": 1,
        "seed": 0,
        # As many elements in the largest tensor as fit the budget.
        "max_elements": most if needed <= budget else max(1, most * budget // needed),
        "symbolic": False,
        "claims": str(claims),
    }


def row(outcome: Outcome) -> dict[str, Any]:
    """Return the row of a graph's outcome."""
    found: dict[str, Any] = {"path": outcome.item["path"], "seconds": round(outcome.seconds, 2)}
    if not outcome.ok:
        codes = sorted({d.code for d in outcome.diagnostics})
        state = "not supported" if set(codes) <= UNSUPPORTED else "failed"
        return found | {"state": state, "codes": codes, "message": outcome.diagnostics[0].message}
    value = outcome.value
    found |= {"code": value["code"], "shrunk": value["shrunk"]}
    if value["report"] is None:
        return found | {"state": "same"}
    report = value["report"]
    errors = [d for d in report["diagnostics"] if d["severity"] == "error"]
    found["max_ulp"] = max((o["max_ulp"] for c in report["cases"] for o in c["outputs"]), default=0)
    if report["ok"]:
        return found | {"state": "passed"}
    return found | {
        "state": "failed",
        "codes": sorted({d["code"] for d in errors}),
        "message": errors[0]["message"],
    }


def rows_of(
    paths: Sequence[Path], *, memory_gib: float, jobs: int, timeout_s: float
) -> Iterator[dict[str, Any]]:
    """Yield a row per file, in order of completion."""
    budget = int(memory_gib * (1 << 30))
    with (
        tempfile.TemporaryDirectory() as claims,
        WorkerPool(
            JOB, workers=jobs, memory_mb=int(memory_gib * 1024) + 4096, timeout_s=timeout_s
        ) as pool,
    ):
        items = [(p, item(p, budget, Path(claims))) for p in paths]
        for p, i in items:
            if i is None:
                yield {"path": str(p), "state": "not read"}
        wanted = (i for _, i in items if i is not None)
        yield from (row(o) for o in pool.map(wanted, ordered=False))


def settled(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows; those not run get the verdict of the graph with the same code."""
    ran = {r["code"]: r for r in rows if r["state"] != "same" and r.get("code")}
    return [
        r
        if r["state"] != "same"
        else {**r, "state": ran[r["code"]]["state"] if r["code"] in ran else "lost"}
        for r in rows
    ]


def main() -> int:
    """Run, and print the failures, the shrunk graphs, and the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--sample", type=int, help="how many of the files")
    parser.add_argument(
        "--out", type=Path, help="JSON lines, one per graph; those that are there are kept"
    )
    parser.add_argument(
        "--memory", type=float, default=16, help="GiB for a reference (default: 16)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="graphs at once (default: 1)")
    parser.add_argument(
        "--timeout", type=float, default=600, help="seconds for a graph (default: 600)"
    )
    args = parser.parse_args()
    paths = sorted(p for p in args.folder.rglob("*") if p.suffix in (".json", ".info"))
    random.Random(0).shuffle(paths)
    paths = paths[: args.sample]
    rows: list[dict[str, Any]] = []
    if args.out is not None and args.out.exists():
        lines = args.out.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
    done = {r["path"] for r in rows}
    fresh = rows_of(
        [p for p in paths if str(p) not in done],
        memory_gib=args.memory,
        jobs=args.jobs,
        timeout_s=args.timeout,
    )
    for r in fresh:
        rows.append(r)
        if args.out is not None:
            with args.out.open("a", encoding="utf-8") as f:
                f.write(json.dumps(r) + "\n")
    final = settled(rows)
    for r in final:
        if r["state"] in ("failed", "lost"):
            print(
                f"{r['state']} {r['path']}: {' '.join(r.get('codes', []))} {r.get('message', '')}"
            )
    shrunk = [r for r in final if r.get("shrunk")]
    for r in shrunk:
        print(f"shrunk {r['path']}: {r['shrunk']['from']} elements to {r['shrunk']['to']}")
    counts = Counter(r["state"] for r in final)
    print(", ".join(f"{n} {s}" for s, n in sorted(counts.items())), f"; {len(shrunk)} shrunk")
    return 1 if counts["failed"] or counts["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
