"""From a chip to a target file: the kit on the fake CANN, and the fit of its hidden figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fake_canns import FakeCann

import autofuse as package
from autofuse.machines.npu.kernel import NpuKernel
from autofuse.measure.calibration.programs import TENSORS
from autofuse.targets import load_chip, read_target

#: Five programs: a compiler takes seconds for each.
KIT = (
    "start.",
    "sync.c48",
    "load.memory",
    "load.one",
    "load.single",
    "load.same_order",
    "scalar.16",
    "tensors.",
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kit") / "bundle.json"


@pytest.mark.twin
@pytest.mark.slow
def test_hidden_figures_of_the_fake_are_found(
    autofuse: Callable, fake_cann: FakeCann, tmp_path: Path
) -> None:
    env = {"ASCEND_HOME_PATH": str(fake_cann.root)}
    words = [w for name in KIT for w in ("--filter", name)]
    kit = ("--only", "calibration", *words, "--repeats", "100", "--out", "bundle.json", "--yes")
    measured = autofuse("silicon", *kit, "--json", **env)
    assert measured.code == 0, measured.err
    done = autofuse("calibrate", "bundle.json", "-o", "mine.toml", "--json")
    assert done.code == 0, done.err
    found = done.json()["result"]
    assert found["fake"] is True
    assert found["target"] == "ascend910b2_fake"
    hidden = fake_cann.figures()
    off = {e["name"]: e["value"] / hidden[e["name"]] - 1 for e in found["fitted"]}
    # The fake device has noise; a fit of the kit's few kernels finds a figure to some percent.
    assert {n: o for n, o in off.items() if abs(o) > 0.05} == {}
    wanted = {"kernel_head_us", "sync_all", "model.read_gbs", "model.same_order_gbs"}
    assert wanted <= off.keys()
    # These are as they were: nothing was measured that has them.
    why = {e["name"]: e["why"] for e in found["unchanged"]}
    assert why["vector.exp.rate32"] == why["model.store_issue"] == "no kernel depends on it"
    # The one cost of the fake that the model lacks shows where it is.  Of scalar reads the kit is too small to tell.
    assert {k["name"] for k in found["kinds"] if k["lacking"]} - {"scalar"} == {"tensors"}
    (tensors,) = [k for k in found["kinds"] if k["name"] == "tensors"]
    us = hidden["hidden.tensor_us"] * (TENSORS + 1 - 2)
    assert tensors["bias"] == pytest.approx(2.5 / (2.5 + us) - 1, abs=0.08)
    error = found["error_median"]
    assert error["held_out"] < 0.02 < error["before"]

    target = read_target(tmp_path / "mine.toml")
    base = load_chip("ascend910b2")
    assert target.sync_all == pytest.approx(hidden["sync_all"], rel=0.01)
    assert target.vector["exp"] == base.vector["exp"]


@pytest.mark.twin
def test_a_kernel_for_a_target_file_runs_on_the_chip(fake_cann: FakeCann, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    head = 'schema = "autofuse.target/1"\nname = "mine"\nbase = "ascend910b2"\n[figures]\n'
    row = '{ value = 40, status = "assumed", source = "a chip with fewer cores" }'
    path.write_text(f"{head}aiv_cores = {row}\n", encoding="utf-8")
    graph = {
        "schema": "autofuse.graph/1",
        "name": "for_mine",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [3000, 64]}],
        "nodes": [{"name": "n", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}],
        "outputs": ["y"],
    }
    kernel = NpuKernel.load(package.build(graph, target=str(path)))
    x = np.random.default_rng(1).standard_normal((3000, 64)).astype(np.float32)
    ran = kernel.run({"x": x})
    np.testing.assert_array_equal(ran.outputs["y"], np.abs(x))
    assert ran.block_dim <= 40
