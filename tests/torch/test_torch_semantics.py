"""What a compiled function must not change: element types, strides, aliases, mutation, training."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import autofuse.clients.torch
from autofuse.clients.torch.devices import kernels

pytestmark = pytest.mark.twin

OPTIONS = {"target": "ascend910b1", "opt": "-O0", "min_ops": 1, "fallback": "error"}
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


def compiled(function: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="autofuse", options=OPTIONS, **how)


def same(function: Callable[..., Any], *inputs: torch.Tensor, **how: Any) -> Any:
    """Equal results, element types and strides, and at least one kernel."""
    have, want = compiled(function, **how)(*inputs), function(*inputs)
    several = isinstance(want, tuple | list)
    for a, b in zip(have, want, strict=True) if several else ((have, want),):
        assert a.dtype == b.dtype
        assert a.stride() == b.stride() or a.numel() < 2
        torch.testing.assert_close(a, b, **CLOSE)
    assert any(g.fused for g in autofuse.clients.torch.report().graphs)
    return have


# element types --------------------------------------------------------------------------------

TYPES = ("float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool")
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: torch.add(a, b),
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "maximum": lambda a, b: torch.maximum(a, b),
    "less": lambda a, b: a < b,
    "where": lambda a, b: torch.where(a > 1, a, b),
    "power": lambda a, b: torch.pow(a, 2) + b,
}


def values(dtype: str, *shape: int) -> torch.Tensor:
    if dtype == "bool":
        return torch.rand(shape) < 0.5
    whole = torch.randint(1, 9, shape)
    return (whole.to(torch.float32) + torch.rand(shape)).to(getattr(torch, dtype))


@pytest.mark.parametrize("name", BINARY)
def test_types_are_promoted_as_pytorch_does(name: str) -> None:
    """Three of all pairs of types: others at each run."""
    # PyTorch has no power of bool.
    first = [t for t in TYPES if (name, t) != ("power", "bool")]
    pairs = random.sample(list(itertools.product(first, TYPES)), 3)
    print(pairs)  # noqa: T201 - for a failure
    for one, two in pairs:
        a, b = values(one, 3, 5), values(two, 5)
        want = BINARY[name](a, b)
        have = compiled(BINARY[name])(a, b)
        assert have.dtype == want.dtype, (one, two)
        close = {"rtol": 1e-2, "atol": 1e-2} if want.dtype.itemsize == 2 else CLOSE
        torch.testing.assert_close(have, want, **close, msg=f"{one}, {two}")


def test_a_number_does_not_widen_a_tensor() -> None:
    same(lambda a: (a + 1, a * 0.5, a > 2, a / 3), values("int32", 7))
    same(lambda a: (a + 2, a * 0.5), values("float16", 7))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_shifts_as_operators(dtype: str) -> None:
    """They are ops of their own in a graph, and none of ``bitwise_left_shift``."""
    a, b = values(dtype, 3, 5), values(dtype, 5) % 7
    same(lambda a, b: (a << b, a >> b, a << 2, a >> 1), a, b)


def test_numbers_of_no_dimension() -> None:
    same(lambda a, b: (a * b + 1.0, (a + b).sum()), torch.randn(()), torch.randn(3, 5))


# strides --------------------------------------------------------------------------------------


def test_inputs_that_are_not_contiguous() -> None:
    x = torch.randn(6, 10)
    for view in (x.t(), x[:, ::2], x[1::2], x[:, 3:4].expand(6, 10), x[2:, 1:9]):
        autofuse.clients.torch.reset()
        torch._dynamo.reset()
        have = compiled(lambda a: torch.exp(a) + 1.0)(view)
        torch.testing.assert_close(have, torch.exp(view) + 1.0, **CLOSE)


def test_results_have_the_strides_of_eager() -> None:
    image = torch.randn(2, 3, 5, 7).to(memory_format=torch.channels_last)
    same(lambda a: torch.relu(a) * 2.0, image)
    same(lambda a: (a + 1.0).transpose(0, 1), torch.randn(4, 5))
    same(lambda a: (a.t() * 2.0, a * 3.0), torch.randn(4, 5))


def test_views_of_a_result_that_others_need() -> None:
    def function(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        b = torch.exp(a) * 2.0
        return b, b.view(-1), b[:, 1:3], b.unsqueeze(0), b.expand(2, *b.shape)

    out = same(function, torch.randn(3, 4))
    assert len({t.data_ptr() for t in out[:2]}) == 1


# mutation and aliases ---------------------------------------------------------------------------


def test_in_place_ops_reach_the_caller() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(b).mul_(2.0)
        a[0].fill_(7.0)
        return a.sum() + b.exp_().sum()

    x, y = torch.randn(4, 5), torch.randn(5)
    one, two = (x.clone(), y.clone()), (x.clone(), y.clone())
    torch.testing.assert_close(compiled(function)(*one), function(*two), **CLOSE)
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)


def test_results_that_are_views_of_inputs_stay_views() -> None:
    x = torch.randn(4, 6)
    view, other = compiled(lambda a: (a.view(2, 12), a + 1.0))(x)
    assert view.data_ptr() == x.data_ptr()
    assert other.data_ptr() != x.data_ptr()


def test_two_inputs_of_the_same_memory() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(2.0)
        return a + b

    x, y = torch.randn(8), torch.randn(8)
    y.copy_(x)
    torch.testing.assert_close(compiled(function)(x, x), function(y, y), **CLOSE)
    torch.testing.assert_close(x, y, **CLOSE)


# sizes ----------------------------------------------------------------------------------------


def test_a_size_as_a_number() -> None:
    def function(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = a.shape[0]
        return (
            a * n,
            a.sum(0) / n,
            a.var(0),
            a.std((0, 1), correction=40),
            a.new_full((n,), 2.0) * a[:, 0],
        )

    options = {**OPTIONS, "fallback": "error"}
    f = torch.compile(function, backend="autofuse", options=options, dynamic=True)
    for n in (5, 8, 31):
        x = torch.randn(n, 3)
        for a, b in zip(f(x), function(x), strict=True):
            torch.testing.assert_close(a, b, **CLOSE)
    assert len(autofuse.clients.torch.report().graphs) == 1


def test_pieces_of_unknown_size() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cat((torch.exp(a[1:]), b * 2.0), dim=0)[:-1] + 1.0

    f = compiled(function, dynamic=True)
    for n, m in ((5, 3), (9, 2), (33, 17)):
        x, y = torch.randn(n, 4), torch.randn(m, 4)
        torch.testing.assert_close(f(x, y), function(x, y), **CLOSE)
    assert len(autofuse.clients.torch.report().graphs) == 1


def test_no_elements() -> None:
    same(lambda a: (a.exp() + 1.0, a.sum(), a.sum(1), a.sum(0)), torch.randn(0, 5))
    same(lambda a: torch.softmax(a, -1), torch.randn(3, 0, 2).transpose(1, 2))


# training -------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
def test_training_steps(optimizer: Any) -> None:
    """Model and optimizer compiled: after some steps the parameters are those of eager."""
    one = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh())
    two = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh())
    two.load_state_dict(one.state_dict())
    how: dict[str, Any] = {"lr": 0.05, "weight_decay": 0.01}
    if optimizer is torch.optim.SGD:
        how["momentum"] = 0.9
    first, second = optimizer(one.parameters(), **how), optimizer(two.parameters(), **how)
    loss = torch.nn.functional.cross_entropy
    forward = compiled(lambda x, y: loss(one(x), y))
    step = compiled(first.step)
    for _ in range(3):
        x, y = torch.randn(5, 6), torch.randint(0, 4, (5,))
        a, b = forward(x, y), loss(two(x), y)
        torch.testing.assert_close(a, b, **CLOSE)
        for value, opt in ((a, first), (b, second)):
            opt.zero_grad()
            value.backward()
        step()
        second.step()
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-4)
    kinds = {g.name.split()[0] for g in autofuse.clients.torch.report().graphs if g.fused}
    assert kinds == {"forward", "backward", "inference"}


def test_a_size_that_only_an_attribute_shows() -> None:
    """No input of the region has the size; it is passed as a number."""

    def function(a: torch.Tensor) -> torch.Tensor:
        return torch.arange(a.shape[0]) * 2 + 1

    f = compiled(function, dynamic=True)
    for n in (5, 8, 31):
        x = torch.randn(n, 3)
        assert torch.equal(f(x), function(x))
    (graph,) = autofuse.clients.torch.report().graphs
    assert graph.fused


def test_sizes_that_are_multiples() -> None:
    def function(a: torch.Tensor) -> torch.Tensor:
        return torch.exp(a.view(-1, 2)).sum(1) + 1.0

    f = compiled(function, dynamic=True)
    for n in (6, 10, 34):
        x = torch.randn(n, 4)
        torch.testing.assert_close(f(x), function(x), **CLOSE)


class _Refuses:
    def run(self, *_: Any) -> tuple[int, str]:
        return 105, "no template for these sizes"


def test_a_refused_call_with_unknown_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's ops in place of the kernel get every size and tensor that they need."""
    built = kernels._built

    def refusing(*args: Any) -> kernels.Built:
        built(*args)
        return kernels.Built(_Refuses())

    monkeypatch.setattr(kernels, "_built", refusing)
    monkeypatch.setattr(kernels, "_CACHE", kernels._Cache())

    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        c = torch.exp(a.view(-1)) * a.shape[0] + torch.arange(a.numel())
        return c.view(a.shape) + torch.full_like(b, 2.0), c.view(a.shape[1], -1).sum(0)

    f = torch.compile(
        function,
        backend="autofuse",
        dynamic=True,
        options={"target": "ascend910b1", "opt": "-O0", "min_ops": 1},
    )
    for n, m in ((4, 3), (5, 7)):
        x, y = torch.randn(n, m), torch.randn(n, m)
        for a, b in zip(f(x, y), function(x, y), strict=True):
            torch.testing.assert_close(a, b, **CLOSE)
    (graph,) = autofuse.clients.torch.report().graphs
    assert graph.at_run_time


# what a process has not loaded ------------------------------------------------------------------


def test_pooling_compiles_in_a_process_where_inductor_has_compiled_nothing() -> None:
    """Inductor opens max pooling by functions of a module that only its own compiler loads."""
    program = """
import torch
import autofuse.clients.torch

pool = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.MaxPool2d(3, return_indices=True))
x = torch.randn(2, 3, 14, 14, requires_grad=True)
(have, place), (want, where) = torch.compile(pool, backend="autofuse", options={"target": "ascend910b1"})(x), pool(x)
assert torch.equal(have, want) and torch.equal(place, where)
(got,) = torch.autograd.grad(have.sum(), x)
(wanted,) = torch.autograd.grad(want.sum(), x)
assert torch.equal(got, wanted)
print(autofuse.clients.torch.report())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "aten.max_pool2d_with_indices (x2): a sliding window: pooling" in done.stdout


# activations ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_of_16_bits_forward_and_backward(dtype: torch.dtype, approximate: str) -> None:
    """Inductor opens it into float32; the kernel has the activation and its slope, of 16 bits."""

    def function(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x + b, approximate=approximate)

    x, b = (torch.randn(s, dtype=dtype) * 3 for s in ((24, 40), (40,)))
    grad = torch.randn(24, 40, dtype=dtype)
    leaves = [x.requires_grad_(), b.requires_grad_()]
    have = compiled(function)(*leaves)
    got = torch.autograd.grad(have, leaves, grad)
    wide = [t.detach().to(dtype) for t in leaves]
    sums = (wide[0] + wide[1]).double().requires_grad_()
    want = torch.nn.functional.gelu(sums, approximate=approximate)
    (slope,) = torch.autograd.grad(want, sums, grad.double())
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(have.double(), want, rtol=step, atol=step / 64)
    torch.testing.assert_close(got[0].double(), slope, rtol=step, atol=step / 64)
