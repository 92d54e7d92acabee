"""Regions that are Triton modules, in Triton's interpreter: ``test_torch_triton.py`` starts these tests with
TRITON_INTERPRET=1, which has to be set before Triton is imported.

The modules are written by hand (``triton_torch_modules``): what is tested is how they are called.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton_torch_modules
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.interpreter import InterpretedFunction
from triton_torch_modules import MODULES

import autofuse.clients.torch
from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch import cuda, kernels
from autofuse.codegen.backends.triton.text.launching import LAUNCHER
from autofuse.machines.gpu.importing import imported

TARGET = {"target": "nvidia-h100"}
POINTWISE, SOFTMAX = MODULES


def half_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a + b) * 0.5


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    assert triton.knobs.runtime.interpret
    monkeypatch.setattr(api, "build_split", triton_torch_modules.build_split)
    backend = SimpleNamespace(entry_point=lambda graph: graph.name)
    monkeypatch.setitem(sys.modules, "autofuse.codegen.backends.triton.backend", backend)
    monkeypatch.setattr(kernels, "_CACHE", kernels._Cache())


def compiled(function: Callable[..., Any], dynamic: bool = False, **options: Any) -> Any:
    return torch.compile(
        function, backend="autofuse", dynamic=dynamic, options={**TARGET, **options}
    )


def fused() -> list[str]:
    return [k.name for g in autofuse.clients.torch.report().graphs for k in g.fused]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_tensors_in_and_tensors_out(dtype: torch.dtype) -> None:
    a, b = torch.randn(3, 1009).to(dtype), torch.randn(3, 1009).to(dtype)
    have, want = compiled(half_relu, fallback="error")(a, b), half_relu(a, b)
    assert have.dtype == dtype
    torch.testing.assert_close(have, want)
    assert fused() == [POINTWISE]
    assert autofuse.clients.torch.report().graphs[0].target == "nvidia-h100"


def test_one_module_serves_all_sizes() -> None:
    """But for 0 and 1, for which PyTorch compiles graphs of their own."""
    f = compiled(softmax, dynamic=True)
    for shape in ((7, 33), (19, 127), (2, 64), (5, 1), (0, 3)):
        x = torch.randn(shape)
        torch.testing.assert_close(f(x), softmax(x))
        if min(shape) > 1:
            assert fused() == [SOFTMAX]


def test_gradients_pass_through() -> None:
    x = torch.randn(5, 17, requires_grad=True)
    grad = torch.randn(5, 17)
    compiled(softmax)(x).backward(grad)
    have, x.grad = x.grad, None
    softmax(x).backward(grad)
    torch.testing.assert_close(have, x.grad)
    assert SOFTMAX in fused()


def _replaced(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    text = MODULES[POINTWISE]
    assert old in text
    monkeypatch.setitem(MODULES, POINTWISE, text.replace(old, new))


@pytest.mark.parametrize("fallback", ["eager", "error"])
def test_a_call_that_the_module_refuses(fallback: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _replaced(monkeypatch, "n = a.numel()", "raise ValueError('not these sizes')")
    f = compiled(half_relu, fallback=fallback)
    a, b = torch.randn(8), torch.randn(8)
    if fallback == "error":
        with pytest.raises(AutofuseError, match=r"AF5003.*rejects a call: not these sizes"):
            f(a, b)
        return
    torch.testing.assert_close(f(a, b), half_relu(a, b))
    torch.testing.assert_close(f(a, b), half_relu(a, b))
    (graph,) = autofuse.clients.torch.report().graphs
    assert graph.at_run_time == [f"{POINTWISE} rejects a call: not these sizes"]


def test_a_kernel_that_triton_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    _replaced(monkeypatch, "inside = at < n", "inside = at < nothing")
    monkeypatch.setenv("AUTOFUSE_STRICT", "1")
    a, b = torch.randn(8), torch.randn(8)
    with pytest.raises(AutofuseError, match=r"AF5002.*is rejected by Triton.*nothing"):
        compiled(half_relu)(a, b)


KINDS: dict[str, Callable[[], Exception]] = {
    "a pass of the compiler": lambda: RuntimeError("PassManager::run failed"),
    "a process of the compiler": lambda: subprocess.CalledProcessError(255, ["ptxas"]),
    "no such program": lambda: FileNotFoundError("ptxas"),
    "more than a card has": lambda: OutOfResources(300000, 232448, "shared memory"),
    "the assembler": lambda: PTXASError("Unsupported .version"),
    "the front end": lambda: CompilationError("x", SimpleNamespace(lineno=1, col_offset=0), "no"),
    "a value": lambda: ValueError("numel exceeds the maximum"),
    "a mistake of the compiler": lambda: AssertionError(),
    "a lack in a table": lambda: KeyError("sm_91"),
}


@pytest.mark.parametrize("strict", [False, True], ids=["fallback", "strict"])
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_the_compiler_raises(
    kind: str, strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noted once, and not tried again; the first one in a process is a warning, or raised."""
    raised = KINDS[kind]()
    tries = []

    def run(self: Any, *args: Any, **options: Any) -> None:
        tries.append(args)
        raise raised

    monkeypatch.setattr(InterpretedFunction, "run", run)
    f = compiled(half_relu)
    a, b = torch.randn(8), torch.randn(8)
    if strict:
        monkeypatch.setenv("AUTOFUSE_STRICT", "1")
        with pytest.raises(AutofuseError, match=rf"AF5002.*by Triton: {type(raised).__name__}"):
            f(a, b)
        return
    for _ in range(3):
        torch.testing.assert_close(f(a, b), half_relu(a, b))
    assert len(tries) == 1
    (graph,) = autofuse.clients.torch.report().graphs
    (why,) = graph.at_run_time
    assert why.startswith(f"{POINTWISE} is rejected by Triton: {type(raised).__name__}: {raised}")


def test_a_launcher_is_marked_once() -> None:
    text = f"""\
import triton

{LAUNCHER}

@Launcher
@triton.jit
def kernel(x_ptr):
    pass


def entry(x):
    kernel((1, 1, 1), (x,), num_warps=4)
"""
    for _ in range(2):
        module = imported(text, "launched.py")
        cuda._mark_first_launches(module, module.entry)
    assert isinstance(module.kernel.kernel, cuda._FirstLaunch)
    assert isinstance(module.kernel.kernel._kernel, InterpretedFunction)
    assert module.kernel.kernel.__name__ == "kernel"
    module.entry(torch.ones(1))


def test_other_errors_are_no_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    _replaced(monkeypatch, "n = a.numel()", "raise RuntimeError('the device is gone')")
    with pytest.raises(RuntimeError, match="the device is gone"):
        compiled(half_relu)(torch.randn(8), torch.randn(8))


def test_sizes_that_no_shape_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are given by name."""
    text = """
import torch


def NAME(x, factor, *, s2):
    assert s2 == factor.item()
    return torch.relu(x * factor)
"""
    monkeypatch.setitem(MODULES, "fused_mul_relu", text)

    def function(x: torch.Tensor, k: int) -> torch.Tensor:
        return torch.relu(x * k)

    f = compiled(function, dynamic=True, fallback="error")
    x = torch.randn(2, 3)
    for k in (2, 5, 7):
        torch.testing.assert_close(f(x, k), function(x, k))
    assert fused() == ["fused_mul_relu"]
    assert not autofuse.clients.torch.report().graphs[0].at_run_time


def test_equal_texts_are_one_module_in_a_file() -> None:
    # Of this process: nobody has imported it before.
    text = f"NUMBER = {torch.seed()}\n"
    first = imported(text, "name.py")
    assert imported(text, "name.py") is first
    assert imported(text + "# another one\n", "name.py") is not first
    with open(first.__file__ or "", encoding="utf-8") as file:  # noqa: PTH123
        assert file.read() == text
