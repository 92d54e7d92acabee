"""Results lie in memory as those of eager do: strides of every op for every memory format, and what reads storage."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it
from torch.utils._pytree import tree_leaves

from autofuse.clients.torch import layouts, selection
from autofuse.clients.torch.devices import kernels

Op = Callable[[torch.Tensor], Any]
ONE_OP = {"target": "ascend910b1", "min_ops": 1}


def batch_norm(x: torch.Tensor, *, training: bool) -> torch.Tensor:
    c = x.shape[1]
    return F.batch_norm(x, torch.zeros(c), torch.ones(c), training=training)


#: What each op is tried with: axes in another order, gaps, elements that share memory, axes of one element, none.
FORMATS: dict[str, Callable[[], torch.Tensor]] = {
    "plain": lambda: torch.randn(2, 4, 3, 5),
    "channels_last": lambda: torch.randn(2, 4, 3, 5).to(memory_format=torch.channels_last),
    "channels_last_3d": lambda: torch.randn(2, 3, 2, 3, 4).to(memory_format=torch.channels_last_3d),
    "transposed": lambda: torch.randn(4, 6).t(),
    "n_l_c": lambda: torch.randn(2, 7, 4).transpose(1, 2),
    "first two swapped": lambda: torch.randn(4, 2, 3, 5).transpose(0, 1),
    "expanded": lambda: torch.randn(2, 4, 1, 5).expand(2, 4, 3, 5),
    "gaps": lambda: torch.randn(2, 4, 6, 5)[:, :, ::2],
    "one channel": lambda: torch.randn(2, 1, 3, 5).to(memory_format=torch.channels_last),
    "one image": lambda: torch.randn(1, 4, 3, 5).to(memory_format=torch.channels_last),
    "no image": lambda: torch.randn(0, 4, 3, 5).to(memory_format=torch.channels_last),
}
OPS: dict[str, Op] = {
    "roll": lambda x: torch.roll(x, 1, 0),
    "roll of two": lambda x: torch.roll(x, (1, 1), (0, 1)),
    "cat along 0": lambda x: torch.cat([x, x], 0),
    "cat along 1": lambda x: torch.cat([x, x], 1),
    "cat with a plain one": lambda x: torch.cat([torch.exp(x).contiguous(), x], 1),
    "stack": lambda x: torch.stack([x, x], 0),
    "stack along 1": lambda x: torch.stack([x, x], 1),
    "batch_norm": lambda x: batch_norm(x, training=False),
    "batch_norm in training": lambda x: batch_norm(x, training=True),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "add": lambda x: x + 1,
    "add of itself": lambda x: x + x,
    "add of a plain one": lambda x: torch.exp(x).contiguous() + x,
    "where": lambda x: torch.where(x > 0, x, x.contiguous() * 2),
    "where and a row": lambda x: torch.where(x > 0, x, torch.zeros(x.shape[-1])),
    "floor of a quotient": lambda x: torch.div(x, torch.tensor(2.0), rounding_mode="floor"),
    "copysign": lambda x: torch.copysign(x, torch.tensor(2.0)),
    "gelu": lambda x: F.gelu(x),
    "cast": lambda x: x.to(torch.float16),
    "flip": lambda x: x.flip(1),
    "pad": lambda x: F.pad(x, (1, 1)),
    "repeat": lambda x: x.repeat(2, *[1] * (x.dim() - 1)),
    "rows by index": lambda x: x[torch.arange(x.shape[0])],
    "columns by index": lambda x: x[:, torch.arange(x.shape[1])],
    "index_select": lambda x: x.index_select(1, torch.arange(x.shape[1])),
    "gather": lambda x: torch.gather(x, 0, torch.zeros_like(x, dtype=torch.int64)),
    "sum": lambda x: x.sum(1, keepdim=True),
    "sum over 0": lambda x: x.sum(0),
    "mean": lambda x: x.mean(1),
    "max and place": lambda x: x.max(1),
    "softmax": lambda x: x.softmax(1),
    "cumsum": lambda x: x.cumsum(1),
    "zeros_like": lambda x: torch.zeros_like(x) + x,
    "contiguous": lambda x: (x * 2).contiguous(),
    "transposed": lambda x: (x * 2).transpose(0, -1),
    "a slice": lambda x: (x * 2)[:, 1:3],
    "an item": lambda x: (x * 2)[:, 0],
    "chunks": lambda x: torch.chunk(x * 2, 2, 1),
    "expanded": lambda x: (x.sum(0, keepdim=True) * 2).expand(3, *x.shape[1:]),
    "a view of the input": lambda x: x.transpose(0, 1),
    "a slice of the input": lambda x: x[:, 0:2],
}


@pytest.fixture
def _no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions allocate results and do not compute them."""
    kernel = SimpleNamespace(run=lambda *given: (0, ""))
    built = kernels.Built(kernel)
    monkeypatch.setattr(selection, "built_for", lambda graph, options, device: built)


def able(x: torch.Tensor) -> dict[str, Op]:
    """The ops that eager takes."""
    found = {}
    for name, op in OPS.items():
        try:
            op(x)
        except (RuntimeError, IndexError, ValueError):
            continue
        found[name] = op
    return found


def places(made: Any) -> list[tuple[Any, ...]]:
    return [(t.shape, t.stride(), t.storage_offset()) for t in tree_leaves(made)]


@pytest.mark.usefixtures("_no_kernels")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_op_of_every_format(name: str, dynamic: bool) -> None:
    x = FORMATS[name]()
    ops = able(x)
    assert len(ops) > 10

    def all_of_them(x: torch.Tensor) -> list[Any]:
        return [op(x) for op in ops.values()]

    f = torch.compile(all_of_them, backend="autofuse", dynamic=dynamic, options=ONE_OP)
    have, want = f(x), all_of_them(x)
    wrong = {
        op: (places(a), places(b))
        for op, a, b in zip(ops, have, want, strict=True)
        if places(a) != places(b)
    }
    assert not wrong


#: AOTAutograd of PyTorch 2.11 makes gradients of transposed tensors contiguous for all backends, that of 2.14 does not.
_OWN_GRADIENTS = torch.__version__ < torch.torch_version.TorchVersion("2.14")
GRADIENTS = ("cat along 0", "cat along 1", "stack", "batch_norm in training", "add", "flip", "pad")
GRADIENTS += ("batch_norm", "softmax", "gelu", "layer_norm", "sum", "a slice", "where", "repeat")


@pytest.mark.usefixtures("_no_kernels")
@pytest.mark.parametrize("name", ["channels_last", "transposed", "n_l_c", "first two swapped"])
def test_gradients(name: str) -> None:
    x = FORMATS[name]()
    for what in GRADIENTS:
        op = OPS[what]
        torch._dynamo.reset()
        one, two = (x.clone().requires_grad_() for _ in range(2))
        want = op(two)
        have = torch.compile(op, backend="autofuse", dynamic=False, options=ONE_OP)(one)
        assert have.stride() == want.stride(), what
        given = torch.randn_like(want)
        (a,), (b,) = torch.autograd.grad(have, one, given), torch.autograd.grad(want, two, given)
        if _OWN_GRADIENTS:
            torch._dynamo.reset()
            made = torch.compile(op, backend="aot_eager", dynamic=False)(two)
            (b,) = torch.autograd.grad(made, two, given)
        assert a.stride() == b.stride(), what


@pytest.mark.twin
@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("roll", "channels_last"),
        ("cat along 0", "channels_last"),
        ("stack", "channels_last"),
        ("batch_norm", "transposed"),
        ("batch_norm in training", "n_l_c"),
    ],
)
def test_what_reads_the_memory_behind_a_result(what: str, name: str) -> None:
    """``as_strided`` in the function, on what it returns, and a view that needs the order of eager."""
    op, x = OPS[what], FORMATS[name]()

    def memory(y: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(y, (y.numel(),), (1,), 0)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = op(x)
        return y, memory(y) * 1

    f = torch.compile(function, backend="autofuse", dynamic=False, options=ONE_OP)
    have, want = f(x), function(x)
    close = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(have, want, **close)
    torch.testing.assert_close(memory(have[0]), memory(want[0]), **close)
    order = layouts.memory_order(want[0])
    assert order is not None
    assert have[0].permute(order).view(-1).shape == (want[0].numel(),)


@pytest.mark.twin
def test_one_graph_for_several_sizes() -> None:
    function = lambda x: torch.as_strided(torch.roll(x, 1, 0), (24,), (1,), 0) * 1  # noqa: E731
    f = torch.compile(function, backend="autofuse", dynamic=True, options=ONE_OP)
    for shape in ((2, 4, 3, 5), (3, 6, 2, 7)):
        x = torch.randn(shape).to(memory_format=torch.channels_last)
        torch.testing.assert_close(f(x), function(x))


@pytest.mark.parametrize(
    ("shape", "strides", "order"),
    [
        ((2, 3), (3, 1), (0, 1)),
        ((2, 3), (1, 2), (1, 0)),
        ((2, 1, 3, 5), (15, 1, 5, 1), (0, 2, 3, 1)),
        ((2, 1, 3, 5), (15, 15, 5, 1), (0, 1, 2, 3)),
        ((0, 4, 3), (12, 1, 4), (0, 2, 1)),
        ((), (), ()),
        ((2, 3), (6, 1), None),
        ((2, 3), (0, 1), None),
        ((2, 3), (3, 2), None),
    ],
)
def test_the_order_of_axes(shape: Any, strides: Any, order: Any) -> None:
    assert layouts.memory_order(torch.empty_strided(shape, strides)) == order


def test_random_numbers_are_not_drawn_to_see_how_they_lie() -> None:
    x = torch.randn(2, 4, 3, 5).to(memory_format=torch.channels_last)
    f = torch.compile(
        lambda x: torch.bernoulli(x.sigmoid()) + 1, backend="autofuse", options=ONE_OP
    )
    torch.manual_seed(3)
    f(x)
    after = torch.rand(())
    torch.manual_seed(3)
    torch.bernoulli(x.sigmoid())
    assert torch.equal(after, torch.rand(()))


def test_an_op_that_small_operands_do_not_fit_keeps_its_strides() -> None:
    """Its numbers are for the sizes that it has: what PyTorch says of it is all there is."""
    x = torch.randn(2, 64, 24, 24).to(memory_format=torch.channels_last)
    op = torch.ops.aten.native_group_norm.default
    given = (x, None, None, 2, 64, 24 * 24, 8, 1e-5)
    assert layouts._ORDERS.of(op, given, {}) == []
