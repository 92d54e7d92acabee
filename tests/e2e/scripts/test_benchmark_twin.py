"""The benchmark of the twin runs, compares results and reports what it says it reports; its times are not judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import twin as benchmark

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.twin

RATIOS = ("fast_over_numpy", "fast_over_numpy_wall", "call_over_numpy", "checked_over_fast")
#: A single op, a chain, a broadcast, another dtype.
NAMES = ("exp", "sigmoid-like", "mul column", "add, float16")


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "speed" / "twin.py"), *args],
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_json_has_a_row_for_every_case() -> None:
    cases = [x for name in NAMES for x in ("--case", name)]
    done = run("--log2", "12", "--repeat", "1", "--json", *cases)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == "autofuse.benchmark.twin/2"
    assert (found["elements"], found["repeat"]) == (4096, 1)
    assert {r["case"] for r in found["rows"]} == set(NAMES)
    for row in found["rows"]:
        assert row["dtype"] == ("float16" if "float16" in row["case"] else "float32")
        assert row["chain"] == (row["case"] == "sigmoid-like")
        for side in ("numpy", "fast", "checked"):
            assert 0 < row[side]["min_s"] <= row[side]["median_s"]
        for name in RATIOS:
            assert set(row[name]) == {"median", "of_min", "quartile_low", "quartile_high"}
            assert all(x > 0 for x in row[name].values())


def test_table_has_a_line_for_every_case() -> None:
    done = run("--log2", "12", "--repeat", "2", "--case", "abs")
    assert done.returncode == 0, done.stderr
    head, rule, row = done.stdout.splitlines()
    assert head.count("|") == rule.count("|") == row.count("|")
    assert row.startswith("| abs |")


def test_an_unknown_case_is_refused() -> None:
    done = run("--case", "no such case")
    assert done.returncode == 2
    assert "there is no case" in done.stderr


def test_a_wrong_result_is_no_benchmark() -> None:
    case = benchmark.Case("wrong", [("Abs", ["x"])], lambda a: a["x"] + 1)
    with pytest.raises(SystemExit, match="fast mode and NumPy differ"):
        benchmark.measure(case, 12, 1)
