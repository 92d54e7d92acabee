"""Kernels on the fake CANN: compiled by its bisheng, run through its runtime, and what goes wrong on purpose."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fake_canns import FakeCann

import autofuse
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.npu.codes import AclError, Kind
from autofuse.machines.npu.counters import counters
from autofuse.machines.npu.kernel import NpuKernel
from autofuse.results import BuildResult

pytestmark = pytest.mark.twin

GRAPH = {
    "schema": "autofuse.graph/1",
    "name": "add_exp",
    "symbols": {"n": {"min": 1, "max": 4096}},
    "inputs": [
        {"name": "x", "dtype": "float16", "shape": ["n", 96]},
        {"name": "b", "dtype": "float16", "shape": [96]},
    ],
    "nodes": [
        {"name": "add", "op": "Add", "inputs": ["x", "b"], "outputs": ["t"]},
        {"name": "exp", "op": "Exp", "inputs": ["t"], "outputs": ["y"]},
    ],
    "outputs": ["y"],
}


@pytest.fixture(scope="module")
def built() -> BuildResult:
    return autofuse.build(GRAPH, target="ascend910b2")


def _inputs(rows: int = 40) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {n: rng.standard_normal(s).astype(np.float16) for n, s in (("x", (rows, 96)), ("b", 96))}


def _expected(given: dict[str, np.ndarray]) -> np.ndarray:
    return np.exp((given["x"] + given["b"]).astype(np.float32)).astype(np.float16)


def test_computes_what_numpy_does(fake_cann: FakeCann, built: BuildResult, tmp_path: Path) -> None:
    built.write(tmp_path / "out")
    kernel = NpuKernel.load(tmp_path / "out")
    given = _inputs()
    found = kernel(given["x"], given["b"])
    np.testing.assert_allclose(found, _expected(given), rtol=2e-3)
    assert kernel.chip.is_fake
    assert (kernel.chip.soc, kernel.chip.target) == ("Ascend910B2", "ascend910b2")
    assert NpuKernel.load(built).path == kernel.path


def test_times_have_noise_and_a_cold_l2_costs(fake_cann: FakeCann, built: BuildResult) -> None:
    kernel = NpuKernel.load(built)
    given = _inputs(4096)
    warm = kernel.time(given, repeats=40)
    clear = kernel.time(given, repeats=40, l2="clear")
    assert len(warm) == len(clear) == 40
    assert len(set(warm)) > 30
    assert 1.0 < np.median(warm) < np.median(clear) < 100.0
    assert 0.01 < np.std(np.sort(warm)[2:-2]) / np.median(warm) < 0.1
    with pytest.raises(ValueError, match="l2 is one of"):
        kernel.time(given, l2="cold")


@pytest.mark.parametrize(
    ("fail", "kind", "code"),
    [
        ("timeout:add_exp", Kind.TIMEOUT, 507046),
        ("lost", Kind.LOST, 507010),
        ("oom", Kind.MEMORY, 207001),
    ],
)
def test_failures_have_their_codes(
    fake_cann: FakeCann,
    built: BuildResult,
    fail: str,
    kind: Kind,
    code: int,
) -> None:
    fake_cann.make(fail=(fail,))
    kernel = NpuKernel.load(built, timeout=0.2)
    with pytest.raises(AclError, match="AF5012") as caught:
        kernel.run(_inputs(4096))
    assert (caught.value.kind, caught.value.code) == (kind, code)


def test_a_chip_that_is_lost_stays_lost_for_the_process(
    fake_cann: FakeCann, built: BuildResult
) -> None:
    fake_cann.make(fail=("lost",), seed=2)
    kernel = NpuKernel.load(built)
    for _ in range(2):
        with pytest.raises(AclError) as caught:
            kernel.run(_inputs())
        assert caught.value.kind is Kind.LOST


def test_a_wrong_chip_gives_wrong_elements(fake_cann: FakeCann, built: BuildResult) -> None:
    fake_cann.make(fail=("wrong:exp",))
    given = _inputs()
    found = NpuKernel.load(built)(given["x"], given["b"])
    wrong = ~np.isclose(found, _expected(given), rtol=2e-3)
    assert 1 <= wrong.sum() <= 4


def test_counters_of_the_pipes(fake_cann: FakeCann, built: BuildResult) -> None:
    kernel = NpuKernel.load(built)
    found = counters(kernel, _inputs(4096), repeats=3)
    assert found is not None
    assert (found.launches, found.cores) == (3, kernel.run(_inputs(4096)).block_dim)
    assert 0.0 < found.pipes_us["MTE2"] < found.us
    assert found.to_json()["pipes_us"]["V"] > 0.0
    fake_cann.make(fail=("timeout",))
    kernel = NpuKernel.load(built, timeout=0.1)
    with pytest.raises(AutofuseError, match=r"AF5012.*did not finish under msprof"):
        counters(kernel, _inputs(), repeats=1)


def test_run_takes_a_chip(fake_cann: FakeCann, built: BuildResult, tmp_path: Path) -> None:
    built.write(tmp_path / "out")
    with pytest.raises(AutofuseError, match="AF5007: check is for the CPU twin"):
        autofuse.load(built, device="npu:0", check="all")
    words = ["run", str(tmp_path / "out"), "--device", "npu:0", "--json"]
    command = [sys.executable, "-m", "autofuse", *words]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["result"]
    assert found["runs_on"] == "npu:0 (Ascend910B2, a fake)"
    assert [row["ok"] for row in found["outputs"]] == [True]


def test_several_kernels_run_by_their_driver(fake_cann: FakeCann) -> None:
    built = autofuse.build_split(GRAPH, target="ascend910b2", cut_after=["add"])
    assert len(built.parts) == 2
    kernel = NpuKernel.load(built)
    given = _inputs()
    np.testing.assert_allclose(kernel(given["x"], given["b"]), _expected(given), rtol=2e-3)
    assert kernel.launched == tuple(p.name for p in built.parts)
    assert min(kernel.time(given, repeats=3)) > 4.0  # two starts


def test_an_old_cann_is_refused(fake_cann: FakeCann, built: BuildResult) -> None:
    fake_cann.make(fail=("old",))
    with pytest.raises(AutofuseError, match="AF5013") as caught:
        NpuKernel.load(built)
    assert "language not recognized: 'asc'" in str(caught.value)


def test_a_kernel_for_another_chip_is_refused(fake_cann: FakeCann, built: BuildResult) -> None:
    fake_cann.make(fail=("two-chips",))
    assert NpuKernel.load(built, "npu:0").chip.index == 0
    with pytest.raises(AutofuseError, match=r"AF5007.*npu:1 \(Ascend310P3, a fake\) has dav-2002"):
        NpuKernel.load(built, "npu:1")
    with pytest.raises(AutofuseError, match=r"AF5007: there is no chip npu:2"):
        NpuKernel.load(built, "npu:2")


def test_an_edited_kernel_that_does_not_compile(fake_cann: FakeCann, built: BuildResult) -> None:
    path = "device/add_exp_kernel.cpp"
    text = built.files[path].replace("Exp(", "Expp(", 1)
    line = next(i for i, x in enumerate(text.splitlines(), 1) if "Expp(" in x)
    with pytest.raises(AutofuseError, match="AF5013") as caught:
        NpuKernel({**built.files, path: text}, built.graph)
    where = caught.value.diagnostics[0].where
    assert (where.path, where.line) == (path, line)
