"""The public Python tests of CANN's fusion package, with autofuse in its place.

    python benchmarks/clients/incumbent_tests.py --checkout graph-autofusion

Nothing of the checkout is copied or changed: pytest reads its files, and the tests import autofuse.  Every test is
listed that does not pass, with the reason; the exit status is 1 if one has none that is known.
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

#: Files with tests that call the package, and not the modules that compile for CANN.
FILES = (
    "autofuse/tests/ut/python/test_python_ascir.py",
    "autofuse/tests/ut/python/test_python_ascir_isinf_maskedfill.py",
    "autofuse/tests/st/python/test_python_ascir_st.py",
)

#: What the message of a failure has -> why it is no defect of autofuse; the first that fits.
REASONS = (
    (r"the op '\w*MatMul\w*' is not supported", "matrix product: no vector work"),
    (r"indirectload_\d", "IndirectLoad: an op that autofuse does not have"),
    (r"Optimize fail", "the test wants the words 'Optimize fail'; ours say what is wrong"),
    (r"(Rational|Max)\(", "the test wants another form of an expression that is equal"),
)


@dataclass(frozen=True)
class Outcome:
    """One test: its name, ``passed``, ``skipped`` or ``failed``, and the message of a failure."""

    name: str
    kind: str
    text: str = ""

    @property
    def reason(self) -> str:
        """Why it fails, as far as that is known."""
        return next((why for pattern, why in REASONS if re.search(pattern, self.text)), "")


def run(checkout: Path) -> list[Outcome]:
    """All tests of the files."""
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
    """The tests of a JUnit report."""
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
    """Run and list."""
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
