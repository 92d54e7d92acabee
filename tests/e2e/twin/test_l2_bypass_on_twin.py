"""Kernels whose loads bypass L2 compute the same, say it to the twin, and take less time by the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import draws
import numpy as np
import pytest

from autofuse import api
from autofuse.machines.twin.run.record import BYPASS, WRITE
from autofuse.machines.twin.timed.timed import EVENTS, sampled_cores
from autofuse.report.explanation import explain
from autofuse.targets import load_target

pytestmark = pytest.mark.twin

#: A chip whose L2 is so small that tensors which run fast on the twin exceed it.
CHIP = replace(load_target("ascend910b2"), l2_bytes=1 << 20)


def add(rows: int | str) -> dict[str, Any]:
    """``exp(x + row) * y`` of float32: x and y are read once, the row by all cores."""
    return {
        "schema": "autofuse.graph/1",
        "name": "stream",
        "symbols": {"m": {"min": 1, "max": 1 << 20}} if isinstance(rows, str) else {},
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": [rows, 1000]},
            {"name": "row", "dtype": "float32", "shape": [1000]},
            {"name": "y", "dtype": "float32", "shape": [rows, 1000]},
        ],
        "nodes": [
            {"name": "a", "op": "Add", "inputs": ["x", "row"], "outputs": ["t"], "attrs": {}},
            {"name": "e", "op": "Exp", "inputs": ["t"], "outputs": ["u"], "attrs": {}},
            {"name": "m", "op": "Mul", "inputs": ["u", "y"], "outputs": ["z"], "attrs": {}},
        ],
        "outputs": ["z"],
    }


def loads(built: api.BuildResult, rows: int) -> dict[str, set[bool]]:
    """Input -> whether its loads bypassed L2, over all loads of some cores; and the result is right."""
    rng = draws.rng()
    arrays = {
        "x": rng.uniform(-2, 2, (rows, 1000)).astype(np.float32),
        "row": rng.uniform(-2, 2, 1000).astype(np.float32),
        "y": rng.uniform(-2, 2, (rows, 1000)).astype(np.float32),
    }
    kernel = api.load(built, check="all")
    run, recording = kernel.record(arrays, sampled_cores, EVENTS)
    wide = {k: v.astype(np.float64) for k, v in arrays.items()}
    want = np.exp(wide["x"] + wide["row"]) * wide["y"]
    np.testing.assert_allclose(run.outputs["z"], want, rtol=1e-5, atol=1e-5)
    out: dict[str, set[bool]] = {}
    for r in recording.records:
        for e in r.events[r.events["gm_rows"] > 0]:
            if not e["gm_use"] & WRITE:
                name = recording.regions[e["region"] - 1].name
                out.setdefault(name, set()).add(bool(e["gm_use"] & BYPASS))
    return out


def test_a_kernel_larger_than_l2_bypasses_it_where_it_reads_once() -> None:
    assert loads(api.build(add(300), target=CHIP), 300) == {
        "x": {True},
        "row": {False},
        "y": {True},
    }


@pytest.mark.parametrize(("rows", "large"), [(1, False), (83, False), (97, True), (300, True)])
def test_where_the_size_is_known_at_run_time_the_kernel_decides(rows: int, large: bool) -> None:
    found = loads(api.build(add("m"), target=CHIP), rows)
    assert found == {"x": {large}, "row": {False}, "y": {large}}


def test_kernels_with_the_hint_are_proved_and_verified() -> None:
    report = api.verify(api.build(add("m"), target=CHIP), shapes=[{"m": 97}, {"m": 83}, {"m": 1}])
    assert report.ok


def test_timed_mode_has_less_to_write_on() -> None:
    arrays = {
        "x": np.ones((300, 1000), np.float32),
        "row": np.ones(1000, np.float32),
        "y": np.ones((300, 1000), np.float32),
    }
    built = api.build(add(300), target=CHIP)
    plain = replace(
        built,
        files={
            name: "\n".join(line for line in text.splitlines() if "SetL2CacheHint" not in line)
            for name, text in built.files.items()
        },
    )
    found, without = (api.timed(b, arrays).report for b in (built, plain))
    # Only what is written, and the row.
    assert found["l2"]["held_bytes"] < 1.1 * 1_200_000 < 3 * 1_200_000 < without["l2"]["held_bytes"]
    assert found["l2"]["spilled_share_of_stores"] < without["l2"]["spilled_share_of_stores"]
    assert found["total_us"] < without["total_us"]


def test_explain_names_the_inputs() -> None:
    built = api.build(add("m"), target=CHIP)
    large, small = (explain("stream", tuple(built.schedule), CHIP, {"m": m}) for m in (300, 10))
    for found, inputs in ((large, [0, 2]), (small, [])):
        taken = [
            t for r in found["results"] for g in r["groups"] for t in g["templates"] if t["chosen"]
        ]
        assert [t["l2"]["bypassed_inputs"] for t in taken] == [inputs] * len(taken)
        assert all(t["l2"]["size_bytes"] == 1 << 20 for t in taken)
