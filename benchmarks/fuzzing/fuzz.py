"""Search for inputs that autofuse does not answer with a diagnostic.

    python benchmarks/fuzzing/fuzz.py --seconds 60                         every target for a minute
    python benchmarks/fuzzing/fuzz.py --seconds 300 --target readers --seed 3
    python benchmarks/fuzzing/fuzz.py --runs 2000 --json                   a fixed number of inputs

Targets: readers (graph files, JSON of the IRs), expr (expressions), pipeline
(a graph file to all generated files).  An input is a finding if it raises anything but
AutofuseError, ends in AF9001, takes more than 10 s of CPU or 512 MiB, gives a diagnostic that cannot
be shown, or does not survive a round trip through printing and reading.

The search is coverage-guided: by atheris (`pip install -e '.[fuzz]'`), or by a slower built-in loop
if atheris is not installed.  The exit code is 1 if there are findings.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

NAMES = ("readers", "expr", "pipeline")
_STATS = re.compile(r"#(\d+)\s+(?:\w+)\s+cov: (\d+) ft: (\d+) corp: (\d+)")
_MINIMISE_S = 20.0
#: Maximum input length in bytes; the tests of limits cover large files.
MAX_LENGTH = 16384


def main() -> int:
    """Fuzz the requested targets and print the statistics."""
    args = _arguments()
    if args.child:
        return _child(args)
    rows = [_fuzz(t, args) for t in args.target or NAMES]
    if args.json:
        print(json.dumps({"schema": "autofuse.benchmark.fuzz/1", "targets": rows}, indent=2))
    else:
        _show(rows)
    return 1 if any(r["findings"] for r in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", action="append", choices=NAMES, help="default: all of them")
    parser.add_argument("--seconds", type=float, default=60, help="per target (default 60)")
    parser.add_argument("--runs", type=int, default=0, help="inputs per target instead of seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("auto", "atheris", "own"), default="auto")
    parser.add_argument("--findings", type=Path, help="folder for the inputs that were found")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def _fuzz(target: str, args: argparse.Namespace) -> dict[str, Any]:
    """Fuzz one target in subprocesses; a new one continues after an early end."""
    from fuzzing.engines import has_atheris

    engine = args.engine
    if engine == "auto":
        engine = "atheris" if has_atheris() else "own"
    row: dict[str, Any] = {"target": target, "engine": engine, "seed": args.seed}
    row |= {"executions": 0, "coverage": 0, "features": 0, "corpus": 0, "lost": 0}
    with tempfile.TemporaryDirectory(prefix="autofuse-fuzz-") as name:
        work = Path(name)
        found = args.findings or work / "findings"
        found.mkdir(parents=True, exist_ok=True)
        _write_seeds(target, work / "corpus")
        start = time.monotonic()
        for attempt in range(100):
            left = args.seconds - (time.monotonic() - start)
            runs = max(args.runs - row["executions"], 0)
            if (args.runs and not runs) or (not args.runs and left < 1):
                break
            done = _run_child(target, engine, work, found, args.seed + attempt, runs, left)
            row["executions"] += done.pop("executions", 0)
            row |= {k: max(row.get(k, 0), v) for k, v in done.items() if k != "ended"}
            if not done.get("ended"):
                row["lost"] += 1
                if args.runs:
                    break
        row["seconds"] = round(time.monotonic() - start, 1)
        row["findings"] = _findings(target, found)
    return row


def _write_seeds(target: str, folder: Path) -> None:
    from fuzzing.targets import seeds

    folder.mkdir()
    for data in seeds(target, MAX_LENGTH):
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def _run_child(
    target: str, engine: str, work: Path, found: Path, seed: int, runs: int, seconds: float
) -> dict[str, Any]:
    job = {"target": target, "engine": engine, "corpus": str(work / "corpus"), "found": str(found)}
    job |= {"seed": seed, "runs": runs, "seconds": seconds}
    # A fixed order of sets makes a run with a given number of inputs repeatable.
    env = {**os.environ, "PYTHONHASHSEED": "0", "AUTOFUSE_CACHE_DIR": str(work / "cache")}
    with (work / "log").open("w+", encoding="utf-8", errors="replace") as log:
        done = subprocess.run(
            [sys.executable, str(Path(__file__)), "--child", json.dumps(job)],
            stdout=subprocess.PIPE,
            stderr=log,
            env=env,
            text=True,
            check=False,
        )
        log.seek(0)
        text = log.read()
    if engine == "own":
        out: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
    else:
        out = {}
        for m in _STATS.finditer(text):
            keys = ("executions", "coverage", "features", "corpus")
            out = dict(zip(keys, map(int, m.groups()), strict=True))
    ended = done.returncode == 0
    if not ended:
        stem = f"{target}-process-{abs(done.returncode)}"
        report = {"target": target, "finding": f"the process ended with {done.returncode}"}
        (found / f"{stem}.json").write_text(json.dumps({**report, "details": text[-4000:]}))
    return {**out, "ended": ended}


def _child(args: argparse.Namespace) -> int:
    job = json.loads(args.child)
    with contextlib.suppress(OSError):
        os.nice(5)
    corpus, found = Path(job["corpus"]), Path(job["found"])
    if job["engine"] == "atheris":
        from fuzzing.engines import run_atheris

        # autofuse is not imported yet, so this instruments all of it.
        run_atheris(
            job["target"], corpus, found, job["seed"], job["runs"], job["seconds"], MAX_LENGTH
        )
        return 1  # not reached: libFuzzer ends the process
    from fuzzing.engines import OwnEngine, import_all
    from fuzzing.harness import Harness
    from fuzzing.targets import TARGETS

    import_all()
    harness = Harness(job["target"], TARGETS[job["target"]], found)
    harness.limit()
    engine = OwnEngine(harness, job["target"], job["seed"], MAX_LENGTH)
    engine.fuzz([p.read_bytes() for p in sorted(corpus.iterdir())], job["runs"], job["seconds"])
    out = {"executions": harness.runs, "coverage": len(engine.seen), "corpus": len(engine.corpus)}
    print(json.dumps({**out, "features": len(engine.seen)}))
    return 0


def _findings(target: str, folder: Path) -> list[dict[str, Any]]:
    """Return the findings, with minimised inputs."""
    from fuzzing.harness import Harness, minimise
    from fuzzing.targets import TARGETS

    out = []
    for path in sorted(folder.glob(f"{target}-*.json")):
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        raw = path.with_suffix(".input")
        if raw.exists():
            data = raw.read_bytes()
            if not report["finding"].startswith(("hang", "memory")):
                harness = Harness(target, TARGETS[target])
                if harness.run(data) == report["finding"]:
                    data = minimise(harness, data, report["finding"], _MINIMISE_S)
                    raw.with_suffix(".min").write_bytes(data)
            report["input"] = data.decode("utf-8", "backslashreplace")
        out.append(report)
    return out


def _show(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'target':10} {'engine':8} {'seconds':>8} {'executions':>11} {'coverage':>9} "
        f"{'features':>9} {'corpus':>7} {'findings':>9}"
    )
    for r in rows:
        print(
            f"{r['target']:10} {r['engine']:8} {r['seconds']:8.1f} {r['executions']:11} "
            f"{r['coverage']:9} {r['features']:9} {r['corpus']:7} {len(r['findings']):9}"
        )
    for r in rows:
        for f in r["findings"]:
            print(f"\n{r['target']}: {f['finding']}\n{f['details'].rstrip()}")
            if "input" in f:
                print(f"input: {f['input'][:2000]}")


if __name__ == "__main__":
    sys.exit(main())
