"""Ascend C kernels as operators inside Inductor: computed by the twin, and in graphs with fake tensors of a chip."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._functorch import config as aot_config
from torch._inductor import config
from torch._inductor.utils import run_and_get_code
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it

import autofuse.clients.torch
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch import Options
from autofuse.clients.torch.devices import kernels
from autofuse.clients.torch.devices.programs import OperatorProgram
from autofuse.clients.torch.inductor import fusing, operators, regions
from autofuse.clients.torch.inductor.fusing import FusionPass

OPTIONS = {"target": "ascend910b1", "inductor": True, "fallback": "error", "min_ops": 1}


def test_tensors_of_a_chip(repo: Path) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--extras", "--show-capture=no"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests/torch/npu_of_inductor.py"],
        capture_output=True,
        text=True,
        cwd=repo,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_the_key_of_inductors_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Options(target="ascend910b1", inductor=True)
    key = FusionPass(plain).uuid()
    others = [
        Options(target="ascend910b2", inductor=True),
        Options(target="ascend910b1"),
        Options(inductor=True),
        Options(target="ascend910b1", inductor=True, choose="all"),
    ]
    assert len({key, *(FusionPass(o).uuid() for o in others)}) == 5
    monkeypatch.setattr(fusing, "digest_of_sources", lambda: "another version")
    assert FusionPass(plain).uuid() != key


# computed by the twin -------------------------------------------------------------------------

twin = pytest.mark.twin


@pytest.fixture(autouse=True)
def _no_cache() -> Iterator[None]:
    """A graph from Inductor's cache has no report."""
    with config.patch(fx_graph_cache=False), aot_config.patch(enable_autograd_cache=False):
        yield


def compiled(function: Callable[..., Any], dynamic: bool = False, **options: Any) -> Any:
    return torch.compile(
        function, backend="autofuse", dynamic=dynamic, options={**OPTIONS, **options}
    )


def calls(code: str) -> int:
    return code[code.index("def call(") :].count("= torch.ops.autofuse.")


def check(function: Callable[..., Any], *inputs: Any, regions: int = 1, **how: Any) -> str:
    """Equal to eager, one call of an operator per region, and no kernel of Inductor; the code of its wrapper."""
    have, (code,) = run_and_get_code(compiled(function, **how), *inputs)
    want = function(*inputs)
    torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5, equal_nan=True)
    pairs = zip(have, want, strict=True) if isinstance(want, tuple) else [(have, want)]
    assert all(a.stride() == b.stride() for a, b in pairs)
    assert calls(code) == code.count("defined_operator(") == regions
    assert "cpp_fused" not in code
    return str(code)


def softmax_and_norm(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    z = torch.softmax(x * 0.5, -1) @ w
    return F.layer_norm(z, (z.shape[-1],)), (z * 2).sum(-1)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "several results": (lambda x: (x * 2, x.sum(-1), x > 0), (torch.randn(5, 67),)),
    "16 bits": (lambda x: torch.softmax(x * 2, -1), (torch.randn(5, 64).half(),)),
    "another order": (lambda x, y: x.t() * 2 + y, (torch.randn(33, 70), torch.randn(70, 33))),
    "gaps": (lambda x: F.silu(x[:, :32]) * x[:, 32:], (torch.randn(5, 64),)),
    "columns": (lambda x: torch.exp(x).sum(0), (torch.randn(70, 33),)),
    "rows": (lambda x, i: x[i] * 2, (torch.randn(9, 7), torch.randint(-9, 9, (20,)))),
    "images": (
        lambda x: torch.relu(x * 2 + 1),
        (torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),),
    ),
    "one element": (lambda x: torch.exp(x).sum() * 2, (torch.randn(1, 1),)),
    "specials": (
        lambda x: (torch.exp(x), x.sigmoid()),
        (torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 89.0]),),
    ),
}


@twin
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str) -> None:
    function, inputs = FUNCTIONS[name]
    check(function, *inputs, choose="all")


@twin
def test_one_graph_serves_all_sizes() -> None:
    call = compiled(softmax_and_norm, dynamic=True)
    for n, k, m in ((6, 67, 33), (9, 55, 21), (130, 3, 2)):
        x, w = torch.randn(n, k), torch.randn(k, m)
        for a, b in zip(call(x, w), softmax_and_norm(x, w), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    (report,) = autofuse.clients.torch.report().graphs
    assert len(report.fused) == 2
    assert all(k.symbols for k in report.fused)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[OperatorProgram]:
    """The kernels that become operators."""
    found: list[OperatorProgram] = []
    real = operators.operator_for

    def keep(program: OperatorProgram) -> Any:
        found.append(program)
        return real(program)

    monkeypatch.setattr(regions, "operator_for", keep)
    return found


@twin
def test_numbers_of_a_call_and_sizes_that_no_shape_shows(programs: list[OperatorProgram]) -> None:
    def function(x: torch.Tensor, n: int) -> torch.Tensor:
        return (x * 2).expand(n, -1).cumsum(0) + x.shape[0]

    call = compiled(function, dynamic=True, choose="all")
    for k, n in ((5, 7), (9, 4), (3, 11)):
        x = torch.randn(k)
        torch.testing.assert_close(call(x, n), function(x, n))
    (program,) = programs
    _, described = operators.operator_for(program)
    assert [a.kind for a in described.arguments] == ["Tensor", "Tensor", "SymInt"]


@twin
def test_forward_and_backward() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.LayerNorm(64))
    fast = compiled(model)
    x = torch.randn(8, 16, requires_grad=True)
    loss = fast(x).square().mean()
    have = torch.autograd.grad(loss, [x, *model.parameters()])
    want = torch.autograd.grad(model(x).square().mean(), [x, *model.parameters()])
    torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)
    graphs = autofuse.clients.torch.report().graphs
    assert [g.name.split()[0] for g in graphs] == ["forward", "backward"]
    assert all(g.fused for g in graphs)


@twin
def test_pytorchs_own_check_of_operators(programs: list[OperatorProgram]) -> None:
    """Schema, fake tensors, sizes at run time: for the operator of a graph with symbols."""
    check(lambda x: (torch.softmax(x, -1), x.sum(0)), torch.randn(6, 40), dynamic=True)
    (program,) = programs
    target, described = operators.operator_for(program)
    assert str(target._schema) == f"autofuse::{described.schema}"
    for given in (torch.randn(7, 33), torch.randn(33, 7).t(), torch.randn(7, 66)[:, ::2]):
        torch.library.opcheck(target, (given,))


@twin
def test_a_call_that_the_kernel_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to fall back to: the error names the option."""

    class Refuses:
        def run(self, *_: Any) -> tuple[int, str]:
            return 105, "no template for these sizes"

    monkeypatch.setattr(kernels, "_loaded", lambda *_: Refuses())
    monkeypatch.setattr(kernels, "_CACHE", kernels._Cache())
    monkeypatch.setattr(operators, "_OPERATORS", operators._Operators())
    with pytest.raises(AutofuseError, match=r"AF5003.*no template(.|\n)*option inductor"):
        compiled(lambda x: torch.tan(x) * 0.125)(torch.randn(3, 5))


@twin
def test_what_stays_with_inductor() -> None:
    with config.patch(cpp_wrapper=True):
        compiled(lambda x: torch.relu(x) * 2)(torch.randn(3))
    compiled(lambda n: torch.arange(9) * 2)(torch.randn(3))
    reasons = {why for g in autofuse.clients.torch.report().graphs for _, why in g.not_fused}
    assert "Inductor writes its wrapper in C++ (cpp_wrapper)" in reasons
    assert "an operator without a tensor as an argument has no device" in reasons


SCRIPT = """
import torch
import autofuse.clients.torch

options = {"target": "ascend910b1", "inductor": True, "fallback": "error"}
fast = torch.compile(lambda x: torch.softmax(x * 3, -1), backend="autofuse", options=options)
x = torch.linspace(-4, 4, 60).reshape(4, 15)
torch.testing.assert_close(fast(x), torch.softmax(x * 3, -1))
print("graphs", len(autofuse.clients.torch.report().graphs))
"""


@twin
def test_a_graph_from_inductors_cache_defines_its_operators(tmp_path: Path) -> None:
    """A later process compiles nothing, so the pass does not run there."""
    around = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    seen = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=around
        )
        assert done.returncode == 0, done.stderr[-4000:]
        seen.append(done.stdout.split()[-1])
    # PyTorch 2.12 caches no graph that is compiled with decompositions of a backend: the key has a local function.
    again = "1" if torch.__version__.startswith("2.12.") else "0"
    assert seen == ["1", again]
