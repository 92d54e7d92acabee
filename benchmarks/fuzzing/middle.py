"""Run random graphs with ops of all families, 2 to 2,000 nodes, through everything from a frontend to the text.

    python benchmarks/fuzzing/middle.py --minutes 5                 graph files, ONNX models, functions of PyTorch
    python benchmarks/fuzzing/middle.py --kind onnx --cases 200 --seed 3
    python benchmarks/fuzzing/middle.py --nodes 60 --verify 40      cases of at most 40 nodes also run on the twin
    python benchmarks/fuzzing/middle.py --kind graph --again 17     one case, by the seed and its number

A case is a finding if it ends in AF9001 or in an exception other than AutofuseError, if it takes more than 2 s of
processor time and 20 ms per node, or if it is verified and its kernels differ from NumPy, onnx.reference or eager.
Only verified cases are compiled.  Ctrl-C and SIGTERM end a run early and print the table so far.  The exit code is 1 if
there are findings.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from mixed_graphs import KINDS, Tried, document, size_of, tried

from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import VERIFY_JOB

#: The signals that ended the run early.
_STOPPED: list[int] = []


def main() -> int:
    """Run the requested cases and print the table."""
    args = _arguments()
    if args.again is not None:
        kind = (args.kind or ["graph"])[0]
        with WorkerPool(VERIFY_JOB, workers=1) as pool:
            case = _case(kind, args.seed, args.again, args, pool)
        print(case)
        if kind == "graph":
            print(json.dumps(document(*_drawn(kind, args.seed, args.again, args.nodes))))
        return 0 if case.ok else 1
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda n, _: _STOPPED.append(n))
    rows = [_kind(k, args) for k in args.kind or KINDS if not _STOPPED]
    names = ("kind", "seconds", "cases", "nodes", "built", "verified", "refused", "findings")
    print("| " + " | ".join(names) + " |\n| --- |" + " --: |" * (len(names) - 1))
    for r in rows:
        cells = (len(r[k]) if k == "findings" else r[k] for k in names)
        print("| " + " | ".join(map(str, cells)) + " |")
    for r in rows:
        print(f"{r['kind']} refused: " + ", ".join(f"{c} {n}" for c, n in r["codes"].items()))
        for number, case in r["findings"]:
            print(f"\n{r['kind']} {number}: {case.status}, {case.nodes} nodes\n{case.reason}")
    return 1 if any(r["findings"] for r in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", action="append", choices=tuple(KINDS), help="default: all")
    parser.add_argument("--minutes", type=float, default=1, help="per kind (default 1)")
    parser.add_argument("--cases", type=int, default=0, help="per kind, instead of minutes")
    parser.add_argument("--nodes", type=int, default=2000, help="of a graph at most")
    parser.add_argument("--verify", type=int, default=0, help="cases of at most so many nodes run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", type=int, help="the number of one case")
    return parser.parse_args()


def _drawn(kind: str, seed: int, number: int, most: int) -> tuple[Random, int]:
    rng = Random(f"{kind} {seed} {number}")
    return rng, size_of(rng, most)


def _case(kind: str, seed: int, number: int, args: argparse.Namespace, pool: WorkerPool) -> Tried:
    rng, nodes = _drawn(kind, seed, number, args.nodes)
    return tried(kind, rng, nodes, pool if nodes <= args.verify else None)


def _kind(kind: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run cases of one kind until the time or the number is reached."""
    statuses: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    findings: list[tuple[int, Tried]] = []
    number = nodes = 0
    # Warm up, so that first-call imports do not count.
    tried(kind, Random(0), 2)
    start = time.monotonic()
    with WorkerPool(VERIFY_JOB, workers=1) as pool:
        while not _STOPPED and (
            number < args.cases if args.cases else time.monotonic() - start < 60 * args.minutes
        ):
            case = _case(kind, args.seed, number, args, pool)
            statuses[case.status] += 1
            nodes += case.nodes
            if case.status == "refused":
                codes[case.reason] += 1
            if not case.ok:
                findings.append((number, case))
                print(f"{kind} {number}: {case.status} {case.reason[-300:]}", file=sys.stderr)
            number += 1
    return {
        "kind": kind,
        "seconds": round(time.monotonic() - start),
        "cases": number,
        "nodes": nodes,
        "built": statuses["built"] + statuses["verified"],
        "verified": statuses["verified"],
        "refused": statuses["refused"],
        "codes": codes,
        "findings": findings,
    }


if __name__ == "__main__":
    sys.exit(main())
