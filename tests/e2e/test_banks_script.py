"""``benchmarks/banks.py``: shares of calls without bank conflicts, with and without the memory plan's care."""

import json
from pathlib import Path

import banks
import pytest

from autofuse.targets import load_target


def test_examples_before_and_after(repo: Path) -> None:
    paths = sorted((repo / "examples").glob("*.json"))
    found = banks.count(paths, load_target("ascend910b1"))
    assert found.graphs == len(paths)
    assert found.lost == []
    assert found.gave_up == 0
    assert sum(found.before.values()) == sum(found.after.values()) > 5
    assert found.before[banks.FREE] < found.after[banks.FREE]
    assert found.after[banks.LEFT] == 0
    assert found.results_after == 0
    assert found.vector < 1.0


def test_three_tensors_that_all_meet_are_a_ring(tmp_path: Path) -> None:
    nodes = [("Add", "xy"), ("Mul", "yz"), ("Sub", "zx"), ("Maximum", "ab"), ("Minimum", "dc")]
    graph = {
        "schema": "autofuse.graph/1",
        "name": "ring",
        "inputs": [{"name": x, "dtype": "float32", "shape": [4096]} for x in "xyz"],
        "nodes": [
            {"name": op.lower(), "op": op, "inputs": list(read), "outputs": [made]}
            for (op, read), made in zip(nodes, "abcde", strict=True)
        ],
        "outputs": ["e"],
    }
    path = tmp_path / "ring.json"
    path.write_text(json.dumps(graph))
    found = banks.count([path], load_target("ascend910b1"))
    assert found.after[banks.ODD_RING] == found.templates
    assert found.after[banks.LEFT] == 0


@pytest.mark.corpus
def test_a_sample_of_the_corpus(shared_dir: Path) -> None:
    paths = sorted((shared_dir / "corpus" / "akg").rglob("*.json"))[::40]
    found = banks.count(paths, load_target("ascend910b2"))
    calls = sum(found.after.values()) - found.after[banks.ONE_TENSOR]
    assert found.after[banks.FREE] >= 0.95 * calls > 50
    assert found.after[banks.LEFT] == 0
    assert found.results_after == 0
