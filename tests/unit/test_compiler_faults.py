"""Faults for the mutation of the compiler: where they fit, and what becomes of a test that sees one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import compiler_run
import pytest
from compiler_faults import AREAS, drawn, faults_of, is_in_function

TEXT = b'''
"""A text of 3 numbers."""

def f(x: int = 1, *, y: bool = True) -> "int | None":
    if not x and y:
        raise ValueError(f"{x + 1} is less than 2")
    for k in range(7):
        if k == x:
            continue
        x += k
    names.append("a" + "b")
    print(*zip(a, b, strict=True))
    return min(x, 3) if x < 5 else x - 1
'''


def changed() -> Counter[str]:
    return Counter(f.kind for f in faults_of("f.py", TEXT))


def test_places_that_compute_and_no_words_or_types() -> None:
    assert changed() == {
        "number": 5,  # 1 of x, 7, 3, 5, 1
        "truth": 1,
        "condition": 3,
        "negation": 1,
        "junction": 1,
        "comparison": 2,
        "jump": 1,
        "statement": 3,
        "call": 1,
        "operator": 1,
    }
    for f in faults_of("f.py", TEXT):
        assert f.applied(TEXT) != TEXT
        compile(f.applied(TEXT), f.path, "exec")
        assert TEXT.splitlines()[f.line - 1] in TEXT


def test_as_many_in_each_area_and_the_same_for_a_seed(repo: Path) -> None:
    faults = drawn(repo, 25, seed=1)
    assert faults == drawn(repo, 25, seed=1) != drawn(repo, 25, seed=2)
    areas = Counter(a for f in faults for a, folder in AREAS.items() if f.path.startswith(folder))
    assert set(areas.values()) == {5}


def test_lines_that_run_when_a_module_is_imported(tmp_path: Path) -> None:
    """Defaults are such lines; a test that has the module imported need not be the one that finds the fault."""
    (tmp_path / "f.py").write_bytes(b"LIMIT = 3\n\ndef f(\n    x=1,\n):\n    return x + 2\n")
    faults = faults_of("f.py", (tmp_path / "f.py").read_bytes())
    assert {f.line: is_in_function(tmp_path, f) for f in faults} == {1: False, 4: False, 6: True}


def test_the_file_is_put_back_and_the_verdict_is_that_of_the_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault that a test sees, one that none sees, and one in a line that no test runs."""
    monkeypatch.setattr(compiler_run, "ROOT", tmp_path)
    monkeypatch.setattr(compiler_run, "CHOSEN", tmp_path / "chosen.txt")
    text = b"def larger(a, b):\n    return a > b\n"
    (tmp_path / "work.py").write_bytes(text)
    (tmp_path / "test_work.py").write_text(
        "from work import larger\n\n"
        "def test_two():\n    assert larger(3, 2) and not larger(2, 3)\n\n"
        "def test_equal():\n    assert not larger(2, 2)\n",
        encoding="utf-8",
    )
    (fault,) = faults_of("work.py", text)
    every = ["test_work.py::test_two", "test_work.py::test_equal"]
    found = [
        compiler_run.tried(fault, tests, dict.fromkeys(every, 0.01), 1.0)
        for tests in (every, every[:1], [])
    ]
    assert [r["verdict"] for r in found] == ["killed", "survived", "uncovered"]
    assert found[0]["by"] == every[1]
    assert (tmp_path / "work.py").read_bytes() == text


def test_the_table_counts_by_area_and_lists_what_is_left() -> None:
    def result(name: str, verdict: str) -> dict[str, str]:
        return {"name": name, "verdict": verdict, "line": "a < b", "now": "<="}

    found = [
        result("schedule/a.py:1:2:comparison", "killed"),
        result("schedule/a.py:9:2:comparison", "timeout"),
        result("schedule/b.py:1:2:comparison", "survived"),
        result("schedule/c.py:1:2:comparison", "survived"),
    ]
    text = compiler_run.table(found, {"schedule/c.py:1:2:comparison": "both are the same"})
    assert "| schedule | 4 | 2 | 1 | 1 | 0 |" in text
    assert "| codegen | 0 | 0 | 0 | 0 | 0 |" in text
    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        "- survived: `schedule/b.py:1:2:comparison`: `a < b`, `<=`"
    ]
