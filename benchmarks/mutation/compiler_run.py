"""Plant faults in the compiler itself and count which ones its tests find.

    python benchmarks/mutation/compiler_run.py cover                         record which test runs which line
    python benchmarks/mutation/compiler_run.py run --count 200 --seed 5      plant faults; resumes where it stopped
    python benchmarks/mutation/compiler_run.py table                         the results so far, as Markdown

Run it in a separate clone: it changes a file, runs the tests that run the changed line, and restores the file.
The faults come from ``compiler_faults.py``, equally many in each of five areas.  The fastest tests come first, at most
``--budget`` seconds of them by the time that they took; a fault that survives these may die of slower ones.  Tests that
only compare text with a stored copy are skipped: they fail on every change.  A fault is killed if a test fails, or if
the tests twice take much longer than without it.  ``--reasons`` names a JSON file of faults that change nothing: name
-> why.  ``--part 1/2`` plants every second fault, for two clones side by side.

``cover`` needs pytest-cov, and takes about twice the time of the tests; arguments after ``--`` go to pytest.  With
``--add`` earlier records stay, for new tests: tests whose lines moved must be recorded anew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path

from compiler_faults import AREAS, Fault, drawn, is_in_function

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "mutation"
DATA, TIMES, REPORT, RESULTS, CHOSEN = (
    BUILD / name
    for name in ("coverage.sqlite", "times.json", "report.xml", "results.jsonl", "tests.txt")
)
#: Tests that compare generated text or a generated page with a stored copy.
_COPIES = re.compile(
    r"tests/snapshot/|_pages?\.py::|test_site\.py::|test_cli_errors\.py::|test_ub_overflow\.py::"
)
#: Tests that run before all others.
_FEW = 40
#: Time limit in seconds for pytest's start and collection.
_START = 60.0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    cover_ = verbs.add_parser("cover", help="run the tests and record which lines each one runs")
    cover_.add_argument("--add", action="store_true", help="keep earlier records")
    cover_.add_argument("words", nargs="*", help="arguments of pytest, behind --")
    run_ = verbs.add_parser("run", help="plant faults")
    run_.add_argument("--count", type=int, default=200, help="faults in all (default 200)")
    run_.add_argument("--seed", type=int, required=True, help="of the draw")
    run_.add_argument("--minutes", type=float, default=60.0, help="stop after them (default 60)")
    run_.add_argument("--budget", type=float, default=120.0, help="seconds of tests for a fault")
    run_.add_argument("--part", default="1/1", help="K/N: every Nth fault from the Kth on")
    for verb in (run_, verbs.add_parser("table", help="print the results")):
        verb.add_argument(
            "--reasons", type=Path, help="JSON: name of a fault -> why it changes nothing"
        )
    args = parser.parse_args()
    if args.verb != "table" and find_spec("pytest_cov") is None:
        sys.stderr.write("needs pytest-cov: pip install -e '.[dev,mutation]'\n")
        return 2
    if args.verb == "run" and not (DATA.is_file() and TIMES.is_file()):
        sys.stderr.write("no test is known to run any line: type compiler_run.py cover first\n")
        return 2
    BUILD.mkdir(parents=True, exist_ok=True)
    if args.verb == "cover":
        return cover(args.words, args.add)
    reasons = json.loads(args.reasons.read_text(encoding="utf-8")) if args.reasons else {}
    if args.verb == "run":
        part, parts = map(int, args.part.split("/"))
        faults = drawn(ROOT, args.count, args.seed)[part - 1 :: parts]
        status = run(faults, args.minutes, args.budget)
        if status:
            return status
    sys.stdout.write(table(results(), reasons))
    return 0


def cover(words: Sequence[str], add: bool) -> int:
    """Run the tests with coverage that records which test ran a line, and how long each test takes."""
    folders = [f"--cov={folder}" for folder in AREAS.values()]
    done = pytest(
        [
            *("--cov-context=test", "--cov-report=", f"--junitxml={REPORT}"),
            *(["--cov-append"] if add else []),
            *(*folders, *words),
        ],
        COVERAGE_FILE=str(DATA),
    )
    have = json.loads(TIMES.read_text(encoding="utf-8")) if add and TIMES.is_file() else {}
    TIMES.write_text(json.dumps(have | durations()), encoding="utf-8")
    return done.returncode


def pytest(
    words: Sequence[str], timeout: float | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run pytest in the root of the repository."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        text=True,
        stdout=subprocess.PIPE if timeout else None,
        stderr=subprocess.STDOUT if timeout else None,
        timeout=timeout,
    )


def run(faults: Sequence[Fault], minutes: float, budget: float) -> int:
    """Plant the faults that have no result yet, one after the other, until time is up."""
    if subprocess.run(["git", "diff", "--quiet"], cwd=ROOT).returncode:
        sys.stderr.write("the checkout has changes: run in a clone of its own\n")
        return 2
    tests, seconds = covering(faults), json.loads(TIMES.read_text(encoding="utf-8"))
    have = {r["name"] for r in results()}
    end = time.monotonic() + 60 * minutes
    for k, fault in enumerate(faults):
        if fault.name in have:
            continue
        if time.monotonic() > end:
            sys.stderr.write(f"{len(faults) - k} faults are left; the same command goes on\n")
            break
        result = tried(fault, tests[fault.name], seconds, budget)
        with RESULTS.open("a", encoding="utf-8") as out:
            out.write(json.dumps(result) + "\n")
        sys.stderr.write(f"{k + 1}/{len(faults)} {result['verdict']:9} {fault.name}\n")
    return 0


def covering(faults: Sequence[Fault]) -> dict[str, list[str]]:
    """Return the tests that run the line of each fault, without those that compare copies.

    A line outside of functions runs once, at the import of its module: there the tests that run any line count.
    """
    from coverage import CoverageData

    data = CoverageData(str(DATA))
    data.read()
    lines = {
        path: data.contexts_by_lineno(str((ROOT / path).resolve()))
        for path in {f.path for f in faults}
    }
    found: dict[str, list[str]] = {}
    for f in faults:
        runs = lines[f.path]
        where = [f.line] if is_in_function(ROOT, f) else list(runs)
        names = {context.partition("|")[0] for line in where for context in runs.get(line, ())}
        found[f.name] = sorted(n for n in names if n and not _COPIES.search(n))
    return found


def durations() -> dict[str, float]:
    """Return the seconds of each test of the last run."""
    found: dict[str, float] = {}
    for case in ET.parse(REPORT).getroot().iter("testcase"):
        folder, _, name = case.get("classname", "").rpartition(".")
        path = "/".join([*folder.split("."), f"{name}.py"])
        found[f"{path}::{case.get('name')}"] = float(case.get("time", 0))
    return found


def tried(
    fault: Fault, tests: Sequence[str], seconds: Mapping[str, float], budget: float
) -> dict[str, object]:
    """Plant one fault and run its tests."""
    order = sorted(tests, key=lambda t: (seconds.get(t, 1.0), t))
    spent = list(accumulate(seconds.get(t, 1.0) for t in order))
    order = order[: 1 + sum(s < budget for s in spent)]
    start = time.monotonic()
    path = ROOT / fault.path
    before = path.read_bytes()
    verdict, by = ("survived", "") if tests else ("uncovered", "")
    try:
        path.write_bytes(fault.applied(before))
        # Most faults die of the first tests, and pytest takes long to find many.
        for part in (order[:_FEW], order[_FEW:]):
            if part and verdict == "survived":
                verdict, by = verdict_of(part, sum(seconds.get(t, 1.0) for t in part))
    finally:
        path.write_bytes(before)
    line = before.splitlines()[fault.line - 1].decode().strip()
    return {
        "name": fault.name,
        "kind": fault.kind,
        "line": line,
        "now": fault.now,
        "verdict": verdict,
        "by": by,
        "tests": len(tests),
        "ran": len(order),
        "seconds": round(time.monotonic() - start, 1),
    }


def verdict_of(tests: Sequence[str], seconds: float) -> tuple[str, str]:
    """Return (killed, the test) or (survived, ""); a timeout counts if it occurs twice."""
    CHOSEN.write_text("\n".join(tests), encoding="utf-8")
    for _ in range(2):
        try:
            done = pytest(["-x", "-n", "0", f"@{CHOSEN}"], timeout=_START + 5 * seconds)
        except subprocess.TimeoutExpired:
            continue
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
        if done.returncode == 0:
            return "survived", ""
        return "killed", failed[1] if failed else "pytest itself"
    return "timeout", "twice"


def results() -> list[dict[str, object]]:
    """Return the results so far."""
    if not RESULTS.is_file():
        return []
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def table(found: Iterable[Mapping[str, object]], reasons: Mapping[str, str]) -> str:
    """Return Markdown: a row for each area, and the survivors."""
    counts: dict[str, Counter[str]] = {area: Counter() for area in AREAS}
    left: list[str] = []
    for r in found:
        name = str(r["name"])
        area = next(a for a, folder in AREAS.items() if name.startswith(f"{folder}/"))
        verdict = "equivalent" if name in reasons else str(r["verdict"])
        counts[area][verdict] += 1
        if verdict in ("survived", "uncovered"):
            left.append(f"- {verdict}: `{name}`: `{r['line']}`, `{r['now']}`")
    rows = []
    for area, n in counts.items():
        dead = n["killed"] + n["timeout"]
        cells = (area, n.total(), dead, n["equivalent"], n["survived"], n["uncovered"])
        rows.append(f"| {' | '.join(map(str, cells))} |")
    head = [
        "| area | faults | killed | change nothing | survived | run by no test |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows, "", *left]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
