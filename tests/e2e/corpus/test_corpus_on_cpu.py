"""Graphs of ``shared/corpus/akg`` as C++ loops at their own sizes: a sample of those that are not large.

All of them, also the large ones: ``python benchmarks/cpu/corpus.py``.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from draws import some

from autofuse import api
from autofuse.base.diagnostics import AutofuseError

pytestmark = [pytest.mark.corpus, pytest.mark.twin, pytest.mark.slow]

REPO = Path(__file__).resolve().parents[3]
SAMPLE = 40
#: Bytes of the reference of a graph that is not large.
SMALL = 1 << 25


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = REPO / "benchmarks" / "cpu" / "corpus.py"
    spec = importlib.util.spec_from_file_location("cpu_corpus", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cpu_corpus"] = module
    spec.loader.exec_module(module)
    return module


def test_a_sample_passes(shared_dir: Path, script: ModuleType) -> None:
    paths = sorted((shared_dir / "corpus" / "akg").rglob("*.json"))
    small = []
    for k in some("loops for a CPU", min(4 * SAMPLE, len(paths)), len(paths)):
        try:
            graph = api.read(paths[k])
        except AutofuseError:
            continue
        if script.reference_bytes(graph) <= SMALL:
            small.append(paths[k])
    taken = small[:SAMPLE]
    rows = script.settled(list(script.rows_of(taken, memory_gib=2, jobs=1, timeout_s=120)))
    assert len(rows) == len(taken) > SAMPLE // 2
    assert [r for r in rows if r["state"] != "passed" or r.get("shrunk")] == []


def test_what_is_too_large_is_shrunk_and_listed(script: ModuleType) -> None:
    path = REPO / "tests" / "snapshot" / "graphs" / "long_rows.json"
    needed = script.reference_bytes(api.read(path))
    (row,) = script.rows_of([path], memory_gib=needed / 4 / (1 << 30), jobs=1, timeout_s=120)
    assert row["state"] == "passed"
    assert row["shrunk"]["to"] < row["shrunk"]["from"]
