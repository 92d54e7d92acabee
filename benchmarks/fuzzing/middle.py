"""Random graphs of ops of all families, from 2 to 2,000 nodes, through all that lies between a frontend and the text.

    python benchmarks/fuzzing/middle.py --minutes 5                 graph files, ONNX models, functions of PyTorch
    python benchmarks/fuzzing/middle.py --kind onnx --cases 200 --seed 3
    python benchmarks/fuzzing/middle.py --kind graph --again 17     one case, by the seed and its number

A case is a finding if it ends in AF9001 or in an exception that is no AutofuseError, or if it takes more than 2 s of
processor time and 20 ms per node.  Nothing is compiled.  The exit code is 1 if something was found.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from mixed_graphs import KINDS, Tried, document, size_of, tried


def main() -> int:
    """Run what the command line asks for and print the table."""
    args = _arguments()
    if args.again is not None:
        kind = (args.kind or ["graph"])[0]
        case = _case(kind, args.seed, args.again, args.nodes)
        print(case)
        if kind == "graph":
            print(json.dumps(document(*_drawn(kind, args.seed, args.again, args.nodes))))
        return 0 if case.ok else 1
    rows = [_kind(k, args) for k in args.kind or KINDS]
    print("| kind | seconds | cases | nodes | built | refused | findings |\n|" + " --- |" * 7)
    for r in rows:
        cells = (r[k] for k in ("kind", "seconds", "cases", "nodes", "built", "refused"))
        print("| " + " | ".join(map(str, cells)) + f" | {len(r['findings'])} |")
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
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", type=int, help="the number of one case")
    return parser.parse_args()


def _drawn(kind: str, seed: int, number: int, most: int) -> tuple[Random, int]:
    rng = Random(f"{kind} {seed} {number}")
    return rng, size_of(rng, most)


def _case(kind: str, seed: int, number: int, most: int) -> Tried:
    return tried(kind, *_drawn(kind, seed, number, most))


def _kind(kind: str, args: argparse.Namespace) -> dict[str, Any]:
    """Cases of one kind until the time or the number is reached."""
    statuses: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    findings: list[tuple[int, Tried]] = []
    number = nodes = 0
    # What is loaded at the first call is not counted.
    tried(kind, Random(0), 2)
    start = time.monotonic()
    while number < args.cases if args.cases else time.monotonic() - start < 60 * args.minutes:
        case = _case(kind, args.seed, number, args.nodes)
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
        "built": statuses["built"],
        "refused": statuses["refused"],
        "codes": codes,
        "findings": findings,
    }


if __name__ == "__main__":
    sys.exit(main())
