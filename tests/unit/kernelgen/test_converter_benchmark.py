"""The benchmark that runs KernelGen's converter: what it says of converters that do this or that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[3]
BENCHMARK = REPO / "benchmarks" / "kernelgen_converter.py"
GRAPH = REPO / "examples" / "gallery" / "swiglu.json"
#: A converter that copies the kernels and writes a test.
COPYING = """
import sys
from pathlib import Path
given, made, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
made.mkdir(parents=True, exist_ok=True)
(made / f"{name}.py").write_text((given / f"{name}_triton.py").read_text())
(made / f"{name}_test.py").write_text(TEST)
"""
WHOLE = "def swiglu_baseline(x):\n    return x\n\n\ndef test_swiglu():\n    pass\n\n\n"
WHOLE += "def test_swiglu_performance():\n    return LINE\n"


def run(folder: Path, converter: str | None) -> subprocess.CompletedProcess[str]:
    if converter is not None:
        (folder / "tools").mkdir()
        (folder / "tools" / "kernelgen_to_flaggems.py").write_text(converter)
    words = [sys.executable, BENCHMARK, "--checkout", folder, GRAPH]
    return subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=120, check=False
    )


def test_a_folder_that_is_no_checkout(tmp_path: Path) -> None:
    done = run(tmp_path, None)
    assert done.returncode == 2
    assert "there is no tools/kernelgen_to_flaggems.py" in done.stderr


@pytest.mark.parametrize(
    ("converter", "said"),
    [
        ("import sys\nsys.exit('Expected 4 files')", "the converter: Expected 4 files"),
        (COPYING.replace("TEST", repr(WHOLE.replace("LINE", "1"))), "1 of 1 accepted"),
        (COPYING.replace("TEST", repr(WHOLE.replace("LINE", "one"))), "one is not defined"),
        (COPYING.replace("TEST", repr(WHOLE.replace("LINE", "bench.swiglu"))), "left as it was"),
        (COPYING.replace("TEST", repr("def f(:")), "the test is no Python: line 1"),
        (COPYING.replace("TEST", repr("def f():\n    pass\n")), "the functions are ['f']"),
        (
            COPYING.replace("read_text())", "read_text() + ' ')").replace("TEST", "''"),
            "not those that",
        ),
    ],
    ids=["fails", "accepted", "undefined", "left", "no Python", "functions", "kernels"],
)
def test_converters(tmp_path: Path, converter: str, said: str) -> None:
    done = run(tmp_path, converter)
    assert said in done.stdout, done.stdout + done.stderr
    assert done.returncode == (0 if "accepted" in said else 1)
