"""``torch.compile`` through the Triton backend: on a card, or with TRITON_INTERPRET=1 what needs none on small tensors.

``test_torch_triton.py`` starts the second form.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it
from torch_modules import CASES, Case, check_report, same, step

import autofuse.clients.torch

ON_CARD = torch.cuda.is_available()
DEVICE = "cuda" if ON_CARD else "cpu"
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
OPTIONS = {"fallback": "error", "choose": "all"}
if not ON_CARD:
    OPTIONS["target"] = "nvidia-h100"
SMALL = ("mlp_gelu", "layer_norm", "group_norm", "attention_mask", "cross_entropy")

pytestmark = [
    pytest.mark.sampled(3),
    pytest.mark.slow,
    pytest.mark.skipif(not ON_CARD and not INTERPRETED, reason="there is no CUDA device"),
]
on_card = pytest.mark.skipif(not ON_CARD, reason="there is no CUDA device")


@pytest.fixture(autouse=True)
def _compiled_here() -> Iterator[None]:
    """Inductor's caches would hide what a test compiles from its report."""
    with torch._inductor.config.patch(force_disable_caches=True):
        yield


def compiled(function: Callable[..., Any], **how: Any) -> Any:
    how.setdefault("dynamic", False)
    return torch.compile(function, backend="autofuse", options=OPTIONS, **how)


def inputs_of(case: Case, n: int) -> list[torch.Tensor]:
    return [x.to(DEVICE) for x in case.inputs(n)]


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, device=DEVICE).to(dtype)


def check(function: Callable[..., Any], *inputs: torch.Tensor, **how: Any) -> None:
    torch.testing.assert_close(compiled(function, **how)(*inputs), function(*inputs))


def no_call_was_refused() -> None:
    graphs = autofuse.clients.torch.report().graphs
    assert any(g.fused for g in graphs)
    assert not [why for g in graphs for why in g.at_run_time]


def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(torch.relu(x + y) * 0.5)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


# modules --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_static(case: Case) -> None:
    module = case.make().to(DEVICE)
    same(module, compiled(module), inputs_of(case, 5))
    check_report(case)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_dynamic(case: Case) -> None:
    """One graph serves all batch sizes but 0 and 1, which PyTorch itself compiles apart."""
    module = case.make().to(DEVICE)
    f = compiled(module, dynamic=None)
    inputs = inputs_of(case, 19)
    for x in inputs:
        if x.shape[0] == 19:
            torch._dynamo.mark_dynamic(x, 0)
    for given in (inputs, inputs_of(case, 3), inputs_of(case, 17)):
        same(module, f, given)
    graphs = autofuse.clients.torch.report().graphs
    assert [g.name for g in graphs] == ["forward 1", "backward 1"]
    assert any(k.symbols for g in graphs for k in g.fused)
    check_report(case)


@pytest.mark.parametrize("case", [c for c in CASES if c.name in SMALL], ids=lambda c: c.name)
def test_no_and_one_element(case: Case) -> None:
    module = case.make().to(DEVICE)
    f = compiled(module, dynamic=True)
    for n in (0, 19, 1):
        same(module, f, inputs_of(case, n))
    # Numbers of elements are float64 on the CPU.
    reasons = ("float64", "next to tensors on a card", "several devices", "no elements", "be 0")
    check_report(case, *reasons)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype: torch.dtype) -> None:
    """Products in 16 bits, what is around them in what autocast says; as eager within two units of the last place."""
    module = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8)
    ).to(DEVICE)

    def call(f: Callable[..., Any]) -> Callable[..., Any]:
        def under_autocast(x: torch.Tensor) -> torch.Tensor:
            with torch.autocast(DEVICE, dtype=dtype):
                return f(x).float()

        return under_autocast

    x = normal(16, 32)
    have = step(module, call(compiled(module)), [x])
    want = step(module, call(module), [x])
    eps = torch.finfo(dtype).eps
    for a, b in zip(have, want, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=2 * eps, atol=2 * eps * b.abs().max().item())
    no_call_was_refused()


# tensors --------------------------------------------------------------------------------------


def test_tensors_with_gaps_and_in_another_order() -> None:
    wide = normal(12, 70)
    check(chain, wide[::2, :33], normal(6, 33))
    check(chain, normal(33, 6).t(), normal(33, 6).t())
    check(chain, normal(6, 1).expand(6, 33), normal(6, 33))
    check(softmax, normal(5, 7, 9).transpose(0, 2))
    no_call_was_refused()


def test_addresses_that_are_no_multiples_of_16() -> None:
    """Of the second call with equal sizes, too: nothing is kept from the first one that does not hold."""
    f = compiled(chain)
    base = normal(4099)
    for first in (0, 1, 2, 3, 0):
        x, y = base[first : first + 4096], normal(4096)
        torch.testing.assert_close(f(x, y), chain(x, y))
    no_call_was_refused()


def test_calls_with_other_tensors_and_sizes() -> None:
    f = compiled(softmax, dynamic=True)
    for n, m in ((32, 128), (7, 128), (32, 128), (7, 1000), (3, 17), (32, 128)):
        for _ in range(3):
            x = normal(n, m)
            torch.testing.assert_close(f(x), softmax(x))
    no_call_was_refused()


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (3, 0, 4)])
def test_no_elements(shape: tuple[int, ...]) -> None:
    check(chain, normal(*shape), normal(*shape))
    check(lambda x: (x * 2.0).sum(-1) + 1.0, normal(*shape))


def test_an_input_that_is_updated() -> None:
    def update(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(y).add_(1.0)
        return torch.tanh(x)

    x, y = normal(9, 31), normal(9, 31)
    own = x.clone()
    have, want = compiled(update)(own, y), update(x, y)
    torch.testing.assert_close(have, want)
    torch.testing.assert_close(own, x)
    no_call_was_refused()


def test_a_size_and_a_number_as_operands() -> None:
    def function(x: torch.Tensor, k: int) -> torch.Tensor:
        return torch.relu(x * k) / x.shape[0]

    f = compiled(function, dynamic=True)
    for n, k in ((5, 3), (19, 7), (6, 2)):
        x = normal(n, 8)
        torch.testing.assert_close(f(x, k), function(x, k))
    no_call_was_refused()


def test_a_graph_without_inputs() -> None:
    def function() -> torch.Tensor:
        return torch.arange(100, device=DEVICE).float().sin() * 2.0

    torch.testing.assert_close(compiled(function)(), function())


# the device -----------------------------------------------------------------------------------


@on_card
def test_the_card_is_the_target() -> None:
    check(chain, normal(100), normal(100))
    (graph,) = autofuse.clients.torch.report().graphs
    name = torch.cuda.get_device_name()
    # Of other cards too the target is named after the card.
    assert graph.target.split("-")[0] == name.split()[0].lower()
    for word in ("H100", "H200"):
        if word in name:
            assert graph.target.startswith(f"nvidia-{word.lower()}")


@on_card
def test_another_chip_has_no_kernels_for_a_card() -> None:
    f = torch.compile(chain, backend="autofuse", options={"target": "ascend910b1"})
    x, y = normal(100), normal(100)
    torch.testing.assert_close(f(x, y), chain(x, y))
    (graph,) = autofuse.clients.torch.report().graphs
    assert not graph.fused
    assert {why for _, why in graph.not_fused} == {"ascend910b1 has no kernels for tensors on cuda"}


@on_card
def test_the_current_stream() -> None:
    """What a stream has yet to do is done before a kernel that is launched on it reads."""
    f = compiled(chain)
    x, y = normal(1 << 20), normal(1 << 20)
    f(x, y)
    later, stream = torch.full_like(x, torch.nan), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        later.copy_(x)
        have = f(later, y)
    stream.synchronize()
    torch.testing.assert_close(have, chain(x, y))


@on_card
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_cuda_graph(dynamic: bool) -> None:
    """Forward and backward are recorded once, and replayed with other data."""

    def loss(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(torch.softmax(x, -1) * x.shape[0], (64,), weight).square().sum()

    f = compiled(loss, dynamic=dynamic)
    x, weight = normal(33, 64).requires_grad_(), normal(64).requires_grad_()

    def gradients(function: Callable[..., Any]) -> list[torch.Tensor]:
        out = function(x, weight)
        return [out.detach(), *torch.autograd.grad(out, (x, weight))]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            gradients(f)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        have = gradients(f)
    for _ in range(2):
        with torch.no_grad():
            x.copy_(normal(33, 64))
            weight.copy_(normal(64))
        graph.replay()
        for a, b in zip(have, gradients(loss), strict=True):
            torch.testing.assert_close(a, b, rtol=2e-5, atol=1e-4)
    no_call_was_refused()


@on_card
def test_no_call_waits_for_the_device() -> None:
    def function(x: torch.Tensor, k: int) -> torch.Tensor:
        return torch.softmax(x * k, -1) / x.shape[0]

    f = compiled(function, dynamic=True)
    x = normal(33, 65)
    f(x, 3)
    f(x, 5)
    torch.cuda.set_sync_debug_mode("error")
    try:
        f(x, 7)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@on_card
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one CUDA device")
def test_a_device_that_is_not_the_current_one() -> None:
    f = compiled(chain)
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        x, y = normal(4096).to(device), normal(4096).to(device)
        with torch.cuda.device(0):
            have = f(x, y)
        assert have.device == x.device
        torch.testing.assert_close(have, chain(x, y))
    no_call_was_refused()


# few elements -------------------------------------------------------------------------------------

Weighted = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
#: Reductions of ``[rows, 4, columns]``, with weights for what is normed.
FEW: dict[str, Weighted] = {
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[2:], w, b),
    "rms_norm": lambda x, w, b: F.rms_norm(x + 4, x.shape[2:], w) + b,
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    "instance_norm": lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
    "softmax": lambda x, w, b: torch.softmax(x * w[:, None] + b[:, None], 1),
    "log_softmax": lambda x, w, b: torch.log_softmax(x * w[:, None], -1) * b[:, None],
    "variance": lambda x, w, b: (x * w[:, None] + b[:, None]).var(-1),
    "sums": lambda x, w, b: (x * w[:, None]).sum((0, 2)) + b,
    "running sums": lambda x, w, b: (x * w[:, None] + b[:, None]).cumsum(-1),
}
FEW_SHAPES = ((0, 4, 5), (3, 4, 0), (3, 4, 1), (1, 4, 1), (5, 4, 7))


@pytest.fixture
def _poisoned_memory() -> Iterator[None]:
    """What is allocated is NaN, or the largest integer, until something is written."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.empty(1, device=DEVICE).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.filterwarnings("ignore:.*(deterministic|degrees of freedom|invalid value)")
@pytest.mark.usefixtures("_poisoned_memory")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("what", FEW)
def test_few_elements(what: str, dynamic: bool) -> None:
    """No rows, no columns, one element: values and gradients are those of eager in float64, which refuses some."""
    tried = 0
    for shape in FEW_SHAPES:
        weights = shape[2:] if what in ("layer_norm", "rms_norm") else (4,)
        given = [apart(*shape), normal(*weights), normal(*weights)]
        for x in given:
            x.requires_grad_()
        exact = [x.detach().double().requires_grad_() for x in given]
        try:
            want = differentiated(FEW[what], exact)
            if ON_CARD and what == "group_norm" and not math.prod(shape):
                # Its decomposition by PyTorch divides by the elements of a group.
                continue
        except (ValueError, RuntimeError, IndexError):
            continue
        have = differentiated(compiled(FEW[what], dynamic=dynamic), given)
        close = {"rtol": 2e-5, "atol": 1e-4, "equal_nan": True, "check_dtype": False}
        torch.testing.assert_close(have, want, **close)
        tried += 1
    # Of one element and of none, eager refuses some; rows of several it takes.
    assert tried >= 2
    no_call_was_refused()


def apart(*shape: int) -> torch.Tensor:
    """Random numbers, of which no two neighbours are within 1.

    A norm divides by the spread of a group: two numbers that are almost one make its gradient wrong in float32 for
    eager too.
    """
    steps = sum(torch.meshgrid(*(torch.arange(n) for n in shape), indexing="ij")) % 3
    return torch.rand(shape, device=DEVICE) + 2 * steps.to(DEVICE)


def differentiated(call: Callable[..., Any], given: list[torch.Tensor]) -> list[Any]:
    """The result of a function, and its gradients for a gradient of the result between 0 and 1."""
    made = call(*given)
    grad = torch.linspace(0.1, 1.0, made.numel(), device=DEVICE).reshape(made.shape)
    return [made.detach(), *torch.autograd.grad(made, given, grad.to(made), allow_unused=True)]
