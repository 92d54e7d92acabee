"""Run shape storms: random graphs of one operator family each, compiled and verified on the twin in checked mode.

    python benchmarks/fuzzing/storm.py --minutes 6                      every family for six minutes
    python benchmarks/fuzzing/storm.py --minutes 1 --family reduce --seed 3
    python benchmarks/fuzzing/storm.py --cases 100 --json               a fixed number of cases per family
    python benchmarks/fuzzing/storm.py --family narrow --cases 1000 --prove
    python benchmarks/fuzzing/storm.py --target ascend950pr --cases 30 --special
    python benchmarks/fuzzing/storm.py --again found/reduce-3-17.json   one finding, with full output

Ranks 1 to 6, sizes 0 to 300, every dtype, constant and symbolic sizes; draws depend only on the seed and the
number of the case.  A case is a finding if an output differs, the twin reports an error, autofuse fails, or a graph is
refused for a reason that ``docs/verification.md`` does not list.  With ``--prove`` kernels are proved instead of
compiled: twenty times as many cases per minute.  Ctrl-C and SIGTERM end a storm early and print the table so far.  The
exit code is 1 if there are findings.
"""

from __future__ import annotations

import argparse
import gc
import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from storm_cases import Case, Verdict, prove_case, run_case
from storm_strategies import FAMILIES, random_case

from autofuse import api
from autofuse.machines.twin.run.worker import WorkerPool

JOB = "autofuse.machines.twin.verify.verify:verify_job"
#: The signals that ended the storm early.
_STOPPED: list[int] = []


def main() -> int:
    """Run the requested families and print the table."""
    args = _arguments()
    if args.again:
        return _again(args.again, args)
    # Reference counting frees almost all objects of a case; the cycle collector would take a fifth of the time.
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    rows = [_storm(f, args) for f in args.family or FAMILIES if not _STOPPED]
    if args.json:
        print(json.dumps({"schema": "autofuse.benchmark.storm/1", "families": rows}, indent=2))
    else:
        _show(rows)
    return 1 if any(r["findings"] for r in rows) else 0


def _stop(number: int, _frame: object) -> None:
    """Stop after the current case."""
    _STOPPED.append(number)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--family", action="append", choices=tuple(FAMILIES), help="default: all")
    parser.add_argument("--minutes", type=float, default=1, help="per family (default 1)")
    parser.add_argument("--cases", type=int, default=0, help="per family, instead of minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", default=api.DEFAULT_TARGET)
    parser.add_argument("--special", action="store_true", help="infinities, NaN and what overflows")
    parser.add_argument("--prove", action="store_true", help="proofs only, nothing is compiled")
    parser.add_argument("--found", type=Path, help="folder for the cases that were found")
    parser.add_argument("--again", type=Path, help="run a case that was found")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _again(path: Path, args: argparse.Namespace) -> int:
    case = Case.from_json(json.loads(path.read_text(encoding="utf-8")))
    verdict = run_case(case, target=args.target, special=args.special)
    print(f"{verdict.status} {verdict.reason} ({verdict.runs} runs)\n{verdict.text}")
    return 0 if verdict.ok else 1


def _storm(family: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run cases of one family until the time or the number is reached."""
    statuses: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    has: Counter[str] = Counter()
    findings: list[dict[str, str]] = []
    runs = number = 0
    start = time.monotonic()
    with WorkerPool(JOB, workers=1) as pool:
        while not _STOPPED and (
            (number < args.cases) if args.cases else (time.monotonic() - start < 60 * args.minutes)
        ):
            on = args.target
            case = random_case(Random(f"{family} {args.seed} {number}"), family, on)
            verdict = (
                prove_case(case, on)
                if args.prove
                else run_case(case, pool, target=on, special=args.special)
            )
            statuses[verdict.status] += 1
            runs += verdict.runs
            if args.prove and verdict.status == "passed":
                has.update(verdict.reason.split())
                has["any of these"] += bool(verdict.reason)
                has["not proved"] += bool(verdict.text)
                has["alignment not proved"] += "is a multiple of" in verdict.text
            if verdict.status == "refused":
                refused[verdict.reason] += 1
            if not verdict.ok:
                name = f"{family}-{args.seed}-{number}"
                findings.append(_finding(name, verdict))
                if args.found:
                    args.found.mkdir(parents=True, exist_ok=True)
                    text = json.dumps(case.to_json(), indent=1)
                    (args.found / f"{name}.json").write_text(text, encoding="utf-8")
                    (args.found / f"{name}.txt").write_text(
                        f"{verdict.status} {verdict.reason}\n{verdict.text}", encoding="utf-8"
                    )
            number += 1
    seconds = round(time.monotonic() - start, 1)
    return {
        "family": family,
        "target": args.target,
        "seed": args.seed,
        "seconds": seconds,
        "cases": number,
        "runs": runs,
        **{s: statuses[s] for s in ("passed", "refused", "wrong")},
        "reasons": dict(refused),
        "has": dict(has),
        "findings": findings,
    }


def _finding(name: str, verdict: Verdict) -> dict[str, str]:
    return {
        "case": name,
        "status": verdict.status,
        "reason": verdict.reason,
        "text": verdict.text[:1500],
    }


def _show(rows: list[dict[str, Any]]) -> None:
    names = ("family", "seconds", "cases", "runs", "passed", "refused", "wrong", "findings")
    print("| " + " | ".join(names) + " |\n| --- |" + " --: |" * (len(names) - 1))
    for r in rows:
        cells = [len(r[n]) if n == "findings" else r[n] for n in names]
        print("| " + " | ".join(map(str, cells)) + " |")
    reasons: Counter[str] = Counter()
    for r in rows:
        reasons.update(r["reasons"])
    for reason, n in reasons.most_common():
        print(f"refused {n} times: {reason}")
    for r in rows:
        if r["has"]:
            print(f"{r['family']}: " + ", ".join(f"{k} {n}" for k, n in r["has"].items()))
        for f in r["findings"]:
            print(f"\n{f['case']}: {f['status']} {f['reason']}\n{f['text']}")


if __name__ == "__main__":
    sys.exit(main())
