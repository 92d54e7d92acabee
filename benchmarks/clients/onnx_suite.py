"""Run the node tests of the ONNX standard and print the outcomes.

    python benchmarks/clients/onnx_suite.py                  all cases, on two processes
    python benchmarks/clients/onnx_suite.py --only softmax   cases with this in their name
    python benchmarks/clients/onnx_suite.py --retry          cases that have not passed yet, but may
    python benchmarks/clients/onnx_suite.py --target ascend950pr --check all    kernels of another chip, in checked mode
    python benchmarks/clients/onnx_suite.py --write          and write tests/onnx/outcomes.json, docs/onnx.md

Exit status 1 if a case fails: the kernel's result is wrong, or autofuse is.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tools"))

import onnx  # noqa: E402
from pages.onnx_page import onnx_page  # noqa: E402

from autofuse.api import DEFAULT_TARGET  # noqa: E402
from autofuse.clients.onnx.backend import suite  # noqa: E402
from autofuse.machines.twin.run.native import CHECKS  # noqa: E402

OUTCOMES = REPO / "tests" / "onnx" / "outcomes.json"
PAGE = REPO / "docs" / "onnx.md"


def main() -> int:
    """Run, print, and write if requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose names hold this word")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--target", default=DEFAULT_TARGET)
    parser.add_argument("--check", default=CHECKS[0], choices=CHECKS)
    parser.add_argument("--retry", action="store_true", help="cases recorded as not yet, or failed")
    parser.add_argument("--write", action="store_true", help="keep the verdicts")
    args = parser.parse_args()
    if args.write and args.target != DEFAULT_TARGET:
        parser.error(f"what is kept is of {DEFAULT_TARGET}")
    names = [n for n in suite.case_names() if args.only in n]
    recorded = _recorded()
    if args.retry:
        names = [n for n in names if recorded.get(n, "not yet").startswith(("not yet", "FAILED"))]
    start = time.perf_counter()
    verdicts = []
    for v in suite.run_cases(names, workers=args.jobs, target=args.target, check=args.check):
        verdicts.append(v)
        if v.status == "failed":
            print(f"{v.name}: {v.reason}: {v.detail}", flush=True)
    counts = Counter(v.words for v in verdicts)
    for words, n in counts.most_common():
        print(f"{n:6} {words}")
    print(f"{len(verdicts):6} cases in {time.perf_counter() - start:.0f} s")
    if args.write:
        words = recorded | {v.name: v.words for v in verdicts}
        words = {n: words[n] for n in suite.case_names()}
        outcomes = {"onnx": onnx.__version__, "cases": suite.by_op(words)}
        OUTCOMES.write_text(json.dumps(outcomes, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(onnx_page(outcomes), encoding="utf-8")
    return int(any(v.status == "failed" for v in verdicts))


def _recorded() -> dict[str, str]:
    """Return case -> verdict of the last run."""
    if not OUTCOMES.is_file():
        return {}
    cases = json.loads(OUTCOMES.read_text(encoding="utf-8"))["cases"]
    return {n: words for op in cases.values() for words, names in op.items() for n in names}


if __name__ == "__main__":
    sys.exit(main())
