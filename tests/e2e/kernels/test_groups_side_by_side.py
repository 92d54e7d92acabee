"""Groups that share nothing run on different cores at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import draws
import numpy as np
import pytest

from autofuse import api
from autofuse.codegen.verification import verify_schedule
from autofuse.machines.twin.verify.verify import verify_kernel
from autofuse.targets import load_target

pytestmark = pytest.mark.twin

CHIP = load_target("ascend910b1")
F = "float32"


def parts(shapes: Sequence[Sequence[Any]], symbols: Mapping[str, Any] | None = None) -> Any:
    """A graph with an op of its own on every input."""
    ops = ("Abs", "Exp", "Neg", "Sqrt")
    return {
        "schema": "autofuse.graph/1",
        "name": "k",
        "symbols": dict(symbols or {}),
        "inputs": [{"name": f"x{i}", "dtype": F, "shape": list(s)} for i, s in enumerate(shapes)],
        "nodes": [
            {"name": f"n{i}", "op": ops[i % 4], "inputs": [f"x{i}"], "outputs": [f"y{i}"]}
            for i in range(len(shapes))
        ],
        "outputs": [f"y{i}" for i in range(len(shapes))],
    }


def cores_of(document: Any) -> int:
    """Cores that a graph of fixed sizes runs on."""
    kernel = api.load(api.build(document, target=CHIP))
    shapes = [t["shape"] for t in document["inputs"]]
    return kernel.run({f"x{i}": np.ones(s, np.float32) for i, s in enumerate(shapes)}).block_dim


def check(document: Any, **options: Any) -> api.BuildResult:
    built = api.build(document, target=CHIP, verify_ir=True)
    assert verify_schedule(built.graph, built.schedule, CHIP) == []
    report = verify_kernel(built.files, built.graph, **options)
    assert report.ok, "\n".join(map(str, report.diagnostics))
    return built


@pytest.mark.parametrize("seed", [0, 3, 11])
def test_small_groups_have_cores_of_their_own(seed):
    shapes = [(9, 1000), (77, 33), (5000,)]
    document = parts(shapes)
    check(document, check_seed=seed)
    alone = [cores_of(parts([s])) for s in shapes]
    assert all(n > 1 for n in alone)
    assert sum(alone) < CHIP.aiv_cores
    assert cores_of(document) == sum(alone)


def test_large_groups_share_all_cores():
    document = parts([(300, 1000), (77, 330), (50000,), (123, 456)])
    check(document, check_seed=5)
    assert cores_of(document) == CHIP.aiv_cores


@pytest.mark.parametrize("cores", [1, 2, 7])
def test_fewer_cores_than_groups_ask_for(cores):
    document = parts([(9, 1000), (77, 33), (5000,)])
    kernel = api.load(api.build(document, target=CHIP))
    rng = draws.rng()
    inputs = {
        t["name"]: rng.standard_normal(t["shape"]).astype(np.float32) for t in document["inputs"]
    }
    inputs["x1"] = np.minimum(inputs["x1"], 1)
    run = kernel.run(inputs, cores=cores)
    assert run.block_dim <= cores
    y0, y1, y2 = run.outputs.values()
    np.testing.assert_array_equal(y0, np.abs(inputs["x0"]))
    np.testing.assert_allclose(y1, np.exp(inputs["x1"]), rtol=1e-6)
    np.testing.assert_array_equal(y2, -inputs["x2"])


def test_sizes_that_are_known_at_run_time():
    symbols = {"n": {"min": 0, "max": 100_000}, "m": {"min": 0, "max": 500}}
    check(parts([("n",), (20, "m"), ("m", 3)], symbols), check_seed=2)


def test_what_waits_for_others_begins_anew():
    """Behind a SyncAll the first group is on core 0 again, where nothing runs beside it."""
    document = parts([(64, 40), (64, 30)])
    document["nodes"].append(
        {
            "name": "s",
            "op": "Transpose",
            "inputs": ["y0"],
            "outputs": ["t"],
            "attrs": {"perm": [1, 0]},
        }
    )
    document["nodes"].append({"name": "e", "op": "Exp", "inputs": ["t"], "outputs": ["z"]})
    document["nodes"].append(
        {"name": "r", "op": "ReduceMax", "inputs": ["y0"], "outputs": ["w"], "attrs": {"axes": [0]}}
    )
    document["outputs"] = ["y0", "y1", "z", "w"]
    built = check(document, check_seed=4)
    for r in built.schedule:
        for g, after in zip(r.groups, (*r.groups[1:], None), strict=True):
            beside = after is not None and not after.sync_before
            assert {i.tiling.first_core for i in g.impls} == (
                {f"first_core_{g.index}"} if beside else {None}
            )
