"""Run the public Python tests of CANN's fusion package with autofuse in its place.

    python benchmarks/clients/incumbent_tests.py --checkout graph-autofusion

Nothing in the checkout is copied or changed: pytest reads its files, and the tests import autofuse.  Every test that
does not pass is listed with its reason; the exit status is 1 if one has no known reason.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

#: Test files that call the package, but not the modules that compile for CANN.
FILES = (
    "autofuse/tests/ut/python/test_python_ascir.py",
    "autofuse/tests/ut/python/test_python_ascir_isinf_maskedfill.py",
    "autofuse/tests/st/python/test_python_ascir_st.py",
)

#: Part of a failure message -> why it is not a defect of autofuse; the first match counts.
REASONS = (
    (r"the op '\w*MatMul\w*' is not supported", "matrix product: no vector work"),
    (r"indirectload_\d", "IndirectLoad: an op that autofuse does not have"),
    (r"Optimize fail", "the test wants the words 'Optimize fail'; ours say what is wrong"),
    (r"(Rational|Max)\(", "the test wants another form of an expression that is equal"),
)


@dataclass(frozen=True)
class Outcome:
    """Outcome of one test: its name, ``passed``, ``skipped`` or ``failed``, and the failure message."""

    name: str
    kind: str
    text: str = ""

    @property
    def reason(self) -> str:
        """The known reason for its failure."""
        return next((why for pattern, why in REASONS if re.search(pattern, self.text)), "")


def run(checkout: Path) -> list[Outcome]:
    """Run all tests of the files."""
    found: list[Outcome] = []
    for name in FILES:
        path = checkout.resolve() / name
        if not path.is_file():
            raise SystemExit(f"{path} does not exist: --checkout takes a graph-autofusion checkout")
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.xml"
            options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={scratch}"]
            subprocess.run(
                [sys.executable, "-B", "-m", "pytest", *options, f"--junitxml={report}", str(path)],
                cwd=scratch,
                check=False,
                capture_output=True,
            )
            found += outcomes(report)
    return found


def outcomes(report: Path) -> list[Outcome]:
    """Return the tests of a JUnit report."""
    out = []
    for case in ET.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
        failure = case.find("failure") if case.find("failure") is not None else case.find("error")
        if failure is not None:
            out.append(Outcome(name, "failed", failure.get("message") or "no message"))
        else:
            out.append(Outcome(name, "passed" if case.find("skipped") is None else "skipped"))
    return out


def main() -> int:
    """Run the tests and list the outcomes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--checkout", type=Path, required=True, help="of graph-autofusion")
    found = run(parser.parse_args().checkout)
    failed = [o for o in found if o.kind == "failed"]
    for o in failed:
        print(f"failed  {o.name}: {o.reason or o.text.splitlines()[0]}")
    counts = {k: sum(o.kind == k for o in found) for k in ("passed", "failed", "skipped")}
    print(", ".join(f"{n} {k}" for k, n in counts.items()))
    return int(any(not o.reason for o in failed))


if __name__ == "__main__":
    sys.exit(main())
