"""Modules of Triton kernels in the interpreter: right ones pass, and whatever is wrong with one is found."""

import shutil
import subprocess
import sys
from collections.abc import Iterator

import draws
import ml_dtypes
import numpy as np
import pytest
import triton_modules as written

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.gpu import loading
from autofuse.machines.gpu.kernel import TritonKernel
from autofuse.machines.machine import verify
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import VerifyReport, verify_in_subprocess

pytestmark = pytest.mark.triton

SOFT = api.read(written.softmax_graph())
MIXED = api.read(written.MIXED_GRAPH)
FILES = {"soft_triton.py": written.SOFTMAX, "mixed_triton.py": written.MIXED}


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """One process, which imports PyTorch once, for all kernels that come back."""
    with WorkerPool("autofuse.machines.machine:verify_job", workers=1) as found:
        yield found


def edited(old: str, new: str) -> dict[str, str]:
    assert old in written.SOFTMAX
    return {"soft_triton.py": written.SOFTMAX.replace(old, new)}


def verified(pool: WorkerPool, files: dict[str, str]) -> VerifyReport:
    return verify_in_subprocess(
        files, SOFT, pool=pool, bindings=[{"rows": 7}, {"rows": 0}], seed=11
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_right_module_passes(pool: WorkerPool, dtype: str) -> None:
    graph = api.read(written.softmax_graph(dtype))
    report = verify_in_subprocess(FILES, graph, pool=pool, count=3, seed=5)
    assert report.ok, report.diagnostics
    assert [c.key for c in report.cases] == [-1] * 3
    assert {c.symbols["rows"] for c in report.cases} >= {0}
    # Every element is compared, and the interpreter gets no large tensors.
    most = loading.INTERPRETED_ELEMENTS
    assert all(c.outputs[0].elements == 96 * c.symbols["rows"] <= most for c in report.cases)


def test_parameters_of_every_kind(pool: WorkerPool) -> None:
    sizes = [(13, 101), (1, 0), (0, 1), (64, 22)]
    bindings = [{"rows": r, "copies": c} for r, c in sizes]
    report = verify_in_subprocess(FILES, MIXED, pool=pool, bindings=bindings, seed=3)
    assert report.ok, report.diagnostics
    assert len(report.cases) == 4


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("(x.shape[0],)](", "(x.shape[0] - 1,)](", "AF6002", "96 of 672 elements of output y"),
        ("tl.store(y", "tl.store(x", "AF6002", "elements of output y are not written"),
        ("power / tl", "power * tl", "AF6001", "of 672 elements of output y differ"),
        ("dtype=x.dtype", "dtype=torch.float32", "AF5003", "float32[7, 96] for output y"),
        ("torch.empty(x.shape", "torch.empty((7, 97)", "AF5003", "float16[7, 97] for output y"),
        ("return y", "return y, y", "AF5003", "2 results for 1 output"),
        ("return y", "return y[7]", "AF5003", "IndexError"),
        ("import torch\n", "import torch, nothing\n", "AF5002", "No module named 'nothing'"),
    ],
)
def test_what_is_wrong_is_found(
    pool: WorkerPool, old: str, new: str, code: str, message: str
) -> None:
    try:
        found = verified(pool, edited(old, new)).diagnostics
    except AutofuseError as e:
        found = e.diagnostics
    assert found[0].code == code
    assert message in found[0].message


def test_an_input_that_is_changed_is_found(pool: WorkerPool) -> None:
    store = "    tl.store(y + row"
    files = edited(store, f"    tl.store(bias + at, power, inside)\n{store}")
    assert "the kernel overwrites its input bias" in str(verified(pool, files).diagnostics)


def test_an_output_that_is_not_its_input_is_found(pool: WorkerPool) -> None:
    files = {"mixed_triton.py": written.MIXED.replace("return total,", "return total.clone(),")}
    report = verify_in_subprocess(files, MIXED, pool=pool, bindings=[{"rows": 2, "copies": 1}])
    assert "a tensor other than total" in report.diagnostics[0].message


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("while True: pass", "it took more than 15 s and was ended"),
        ("import os; os.abort()", "SIGABRT"),
    ],
)
def test_a_module_that_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch, new: str, message: str
) -> None:
    monkeypatch.setenv("AUTOFUSE_VERIFY_TIMEOUT", "15")
    report = verify(edited("return y", new), SOFT, bindings=[{"rows": 1}])
    assert not report.ok
    assert report.diagnostics[0].code == "AF5003"
    assert message in report.diagnostics[0].message


def test_a_kernel_is_called_like_one_of_the_twin() -> None:
    rng = draws.rng()
    kernel = TritonKernel(FILES, SOFT)
    bias = rng.standard_normal(96).astype(np.float16)
    for rows in (5, 0, 1):
        x = rng.standard_normal((rows, 96)).astype(np.float16)
        before = x.copy()
        want = np.exp((x + bias).astype(np.float64))
        want /= want.sum(-1, keepdims=True)
        assert np.allclose(kernel(x, bias=bias), want, rtol=2e-3, atol=1e-6)
        assert np.array_equal(x, before)
    with pytest.raises(AutofuseError, match="AF5007: input bias is float32"):
        kernel(x, bias.astype(np.float32))
    with pytest.raises(AutofuseError, match="AF5007: dimension 1 of x is 95"):
        kernel(x[:, :95], bias)
    with pytest.raises(AutofuseError, match="AF5001: there is no device cuda:99 here"):
        TritonKernel(FILES, SOFT, "cuda:99")(x, bias)


def test_outputs_in_place_are_written_into_the_array_that_was_given() -> None:
    rng = draws.rng()
    kernel = TritonKernel(FILES, MIXED)
    x = rng.standard_normal((4, 66), dtype=np.float32)[:, ::2]
    total = rng.standard_normal((4, 33), dtype=np.float32)
    n = rng.integers(-9, 9, 3, dtype=np.int32)
    want = total + x * np.float32(0.5)
    run = kernel.run({"x": x, "scale": 0.5, "total": total, "n": n}, symbols={"copies": 2})
    assert list(run.outputs) == ["t", "z", "w"]
    assert run.outputs["t"] is total
    assert np.array_equal(total, want)
    assert np.array_equal(run.outputs["z"], x > 0)
    assert np.array_equal(run.outputs["w"], [n, n])
    assert run.symbols == {"rows": 4, "copies": 2}
    with pytest.raises(AutofuseError, match="copies does not follow from the shapes"):
        kernel(x, 0.5, total, n)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_casts_to_and_from_bfloat16_round_as_on_a_card(dtype: str) -> None:
    graph = api.read(written.cast_graph(dtype))
    rng = draws.rng()
    x = rng.integers(-5000, 5000, 1009).astype(dtype)
    if dtype != "int32":
        x = (x / 7).astype(dtype)
        x[:6] = np.nan, np.inf, -np.inf, -0.0, 1e-40, 65500.0
    narrow, back = TritonKernel({"casts_triton.py": written.CASTS}, graph)(x)
    want = x.astype(ml_dtypes.bfloat16)
    assert narrow.dtype == want.dtype
    assert np.array_equal(narrow.astype(np.float32), want.astype(np.float32), equal_nan=True)
    finite = np.isfinite(want.astype(np.float32))
    with np.errstate(over="ignore"):
        assert np.array_equal(back[finite], want.astype(dtype)[finite])


def test_nothing_of_pytorch_or_triton_is_imported_in_the_process_that_asks() -> None:
    code = (
        "import sys; from autofuse.machines.gpu import kernel, machine; "
        "assert not {'torch', 'triton'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_without_triton_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(AutofuseError, match=r"AF5001: .* need torch and triton") as e:
        TritonKernel(FILES, SOFT)
    assert e.value.diagnostics[0].hint == "pip install 'ascend-autofuse[gpu]'"


@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="there is no NVIDIA card")
def test_the_same_on_a_card() -> None:
    with WorkerPool("autofuse.machines.machine:verify_job", workers=1, memory_mb=0) as pool:

        def report(files: dict[str, str], graph: FusionGraph) -> VerifyReport:
            return verify_in_subprocess(files, graph, pool=pool, device="cuda", count=4, seed=2)

        assert report(FILES, SOFT).ok
        assert report(FILES, MIXED).ok
        assert "are not written" in str(
            report(edited("tl.store(y", "tl.store(x"), SOFT).diagnostics
        )
        # An address that is nowhere breaks the context of the process; the next kernel gets another one.
        lost = report(edited("tl.store(y + row", "tl.store(y + (1 << 44) + row"), SOFT)
        assert lost.diagnostics[0].code == "AF5003"
        assert report(FILES, SOFT).ok
    rng = draws.rng()
    x = rng.standard_normal((5, 96)).astype(np.float16)
    here, there = (TritonKernel(FILES, SOFT, device)(x, x[0]) for device in ("cpu", "cuda:0"))
    assert np.allclose(here, there, rtol=2e-3, atol=0)


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:-1", "cpu:0", "CUDA", ""])
def test_devices_that_there_are_not(device: str) -> None:
    with pytest.raises(AutofuseError, match="AF5007: kernels run on cpu, cuda or cuda:N"):
        verify(FILES, SOFT, device=device)
