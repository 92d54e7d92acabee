"""Places and borders that a call decides: counted from the end, beyond the size, with other sizes at every call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn import functional

import autofuse.clients.torch
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch import selection
from autofuse.clients.torch.refusal import RefusedError
from autofuse.clients.torch.sizes import Sizes

pytestmark = pytest.mark.twin

OPTIONS = {"target": "ascend910b1", "opt": "-O0", "min_ops": 1}
#: Rows of x, rows of y, and the number of a call.  The second and the third use the kernel of the first.
SIZES = ((6, 5, 2), (7, 5, 3), (13, 7, 4))
Function = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]


def tensors(rows: int, others: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, 3), torch.randn(others, 3)


def check(function: Function, calls: Sequence[tuple[int, int, int]], **options: Any) -> int:
    """Every call gives what eager gives; how many graphs that took."""
    compiled = torch.compile(function, backend="autofuse", options=OPTIONS | options, dynamic=True)
    for rows, others, k in calls:
        x, y = tensors(rows, others)
        torch.testing.assert_close(compiled(x, y, k), function(x, y, k))
    graphs = autofuse.clients.torch.report().graphs
    assert any(g.fused for g in graphs)
    return len(graphs)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, k: torch.relu(x[-k] * 2),
        lambda x, y, k: x[-k:] * 2,
        lambda x, y, k: x[: k - x.shape[0]] * 2,
        lambda x, y, k: x[-y.shape[0]] * 2,
        lambda x, y, k: x.t().select(-1, -k) * 2,
        lambda x, y, k: x.narrow(0, -k, 1) * 2,
        lambda x, y, k: torch.roll(x, -k, 0) * 2,
        lambda x, y, k: torch.cat([x[-k:], y[:k]], -2) * 2,
        lambda x, y, k: torch.select_scatter(x, y[0], 0, -k) * 2,
        lambda x, y, k: functional.pad(x, (0, 0, -k, k), value=3.0) * 2,
    ],
    ids=[
        "index", "slice", "end", "size", "select", "narrow", "roll", "cat", "scatter", "pad",
    ],
)  # fmt: skip
def test_counted_from_the_end(function: Function) -> None:
    assert check(function, SIZES, fallback="error") == 1


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (lambda x, y, k: torch.relu(x[k] * 2), ((6, 5, 2), (6, 5, -2), (9, 5, -3), (9, 5, 4))),
        (lambda x, y, k: x[k:] * 2, ((6, 5, 2), (6, 5, -2), (9, 5, -12), (4, 5, 7), (5, 5, 3))),
        (lambda x, y, k: x[:k] * 2, ((6, 5, 2), (6, 5, -2), (9, 5, 12), (12, 5, 5))),
        (lambda x, y, k: x[-k::2] * 2, ((9, 5, 4), (11, 5, 7), (5, 5, 8))),
        (lambda x, y, k: functional.pad(x, (k, k)) * 2, ((6, 5, 2), (6, 5, -1), (9, 5, 3))),
        (lambda x, y, k: torch.roll(x, k, 0) * 2, ((6, 5, 2), (7, 5, 9), (5, 5, -3))),
    ],
    ids=["index", "start", "end", "step", "pad", "roll"],
)
def test_either_sign_and_beyond(function: Function, calls: Sequence[tuple[int, int, int]]) -> None:
    """What one sign made is not used for the other."""
    check(function, calls)


def test_numbers_below_zero_have_kernels_too() -> None:
    """Their amount is the symbol of the kernel."""
    calls = ((6, 5, -2), (9, 5, -3), (13, 5, -7))
    assert check(lambda x, y, k: torch.relu(x[k] * 2), calls, fallback="error") == 1
    (graph,) = autofuse.clients.torch.report().graphs
    assert not graph.at_run_time
    assert any(n.startswith("-") for f in graph.fused for n in f.symbols)


@pytest.mark.parametrize(
    ("function", "wrong"),
    [
        (lambda x, y, k: torch.relu(x[-k] * 2), (4, 5, 5)),
        (lambda x, y, k: torch.relu(x[-y.shape[0]] * 2), (4, 5, 2)),
        (lambda x, y, k: torch.slice_scatter(x, y[:k], 0, -k) * 2, (7, 2, 3)),
        (lambda x, y, k: torch.select_scatter(x, y[0], 0, -k) * 2, (4, 5, 6)),
    ],
    ids=["index", "size", "slice_scatter", "select_scatter"],
)
def test_what_eager_refuses(function: Function, wrong: tuple[int, int, int]) -> None:
    compiled = torch.compile(function, backend="autofuse", options=OPTIONS, dynamic=True)
    for rows, others, k in SIZES[:2]:
        x, y = tensors(rows, others)
        torch.testing.assert_close(compiled(x, y, k), function(x, y, k))
    rows, others, k = wrong
    for f in (function, compiled):
        with pytest.raises((IndexError, RuntimeError)):
            f(*tensors(rows, others), k)


@pytest.mark.parametrize(
    ("function", "wraps"),
    [
        (lambda x, i: x[i] * 2, True),
        (lambda x, i: torch.gather(x, 0, i[:, None]) * 2, False),
        (lambda x, i: torch.index_select(x, 0, i) * 2, False),
        (lambda x, i: functional.embedding(i, x) * 2, False),
        (lambda x, i: x.scatter(0, i[None, :3], 1.5) * 2, False),
    ],
    ids=["index", "gather", "index_select", "embedding", "scatter"],
)
def test_places_in_a_tensor(
    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], wraps: bool
) -> None:
    """Those that eager takes, and its error for others."""
    compiled = torch.compile(function, backend="autofuse", options=OPTIONS, dynamic=True)
    for rows, places in ((6, [0, 5, 3]), (9, [8, 0, 1]), (4, [3, 3, 0])):
        x, i = torch.randn(rows, 3), torch.tensor(places)
        torch.testing.assert_close(compiled(x, i), function(x, i))
        assert autofuse.clients.torch.report().graphs[-1].fused
        for wrong in ([rows, 0, 1], [0, -rows - 1, 1]):
            for f in (function, compiled):
                with pytest.raises(
                    (IndexError, RuntimeError), match=r"out of (bounds|range)|index"
                ):
                    f(x, torch.tensor(wrong))
        last = torch.tensor([0, -1, 1])
        if wraps:
            torch.testing.assert_close(compiled(x, last), function(x, last))
        else:
            with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)|index"):
                compiled(x, last)


def test_gradients_of_places() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, k: int) -> torch.Tensor:
        return (x[-k:].square().sum(0) * x[-k - 1]).sum()

    compiled = torch.compile(function, backend="autofuse", options=OPTIONS, dynamic=True)
    for rows, others, k in SIZES:
        x, y = tensors(rows, others)
        have, want = (x.clone().requires_grad_(True) for _ in range(2))
        compiled(have, y, k).backward()
        function(want, y, k).backward()
        torch.testing.assert_close(have.grad, want.grad)


class Short:
    """A kernel whose inputs end four bytes before the memory that it reads."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def run(
        self, symbols: Any, pointers: Any, threads: int, sizes: Sequence[int], inputs: int
    ) -> Any:
        short = [n - 4 if i < inputs else n for i, n in enumerate(sizes)]
        return self.kernel.run(symbols, pointers, threads, short, inputs)


def test_a_read_outside_of_a_tensor_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = selection.built_for

    def short(*args: Any) -> Any:
        built = made(*args)
        return dataclasses.replace(built, kernel=Short(built.kernel))

    monkeypatch.setattr(selection, "built_for", short)
    check(lambda x, y, k: torch.relu(x * k), SIZES[:1])
    (graph,) = autofuse.clients.torch.report().graphs
    (why,) = graph.at_run_time
    assert "gm-oob" in why
    assert "reads bytes [0, 4) of GM tensor 'input 1', which has 0 bytes" in why
    torch._dynamo.reset()
    with pytest.raises(AutofuseError, match="gm-oob"):
        check(lambda x, y, k: torch.relu(x * k), SIZES[:1], fallback="error")


def test_a_comparison_that_cannot_be_guarded() -> None:
    """It decides nothing, unless it is the same for all sizes."""
    env = ShapeEnv()
    n = env.create_symintnode(env.create_unspecified_symbol(5, ConstantSource("n")), hint=5)
    size = env.create_unbacked_symint()
    sizes = Sizes()
    assert not sizes.holds(n < 3)
    assert not sizes.holds(n < 2)  # follows from that guard
    with pytest.raises(RefusedError, match="depends on data"):
        sizes.holds(size < 3)
    env.freeze()
    assert not sizes.holds(n < 1)
    with pytest.raises(RefusedError, match="is known only at run time"):
        sizes.holds(n < 7)


@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_a_place_that_data_decide() -> None:
    def function(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.relu(x[i.item()] * 2)

    compiled = torch.compile(function, backend="autofuse", options=OPTIONS, dynamic=True)
    for rows, at in ((6, 2), (7, -3), (5, -5)):
        x, i = torch.randn(rows, 3), torch.tensor(at)
        torch.testing.assert_close(compiled(x, i), function(x, i))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, k: torch.relu(x[k:]) * 2,
        lambda x, y, k: torch.exp(x[:-k]) + 1,
        lambda x, y, k: x[y.shape[0] :] * 2 + 1,
        lambda x, y, k: x[k:-k].softmax(0),
        lambda x, y, k: x[k:] - x[:-k],
        lambda x, y, k: (x[k:] * x[k:]).sum(0) + y[0],
        lambda x, y, k: torch.cat([x[k:], x[:k]]) * 2,
        lambda x, y, k: x[k:].t().amax(0) * 2,
        lambda x, y, k: x[:, None][k:] * y[None, :, :] * k,
        lambda x, y, k: functional.pad(x[k:], (0, 0, k, 0)) * 2 + x,
        lambda x, y, k: torch.relu(torch.relu(x[k:]) * 2)[y.shape[0] :] * 3,
        lambda x, y, k: torch.relu(x[k:])[1:] - torch.relu(x[k:])[:-1],
        lambda x, y, k: (x[k:] * 2)[y.shape[0] :][k - 1 :].amax(0) * 2 + y,
        lambda x, y, k: torch.cat([x[k:][y.shape[0] :] + 1, x[k:] * 2, x]),
    ],
    ids=[
        "start", "end", "other size", "both ends", "neighbours", "sum", "roll", "rows", "outer",
        "pad", "twice", "differences", "three times", "all three",
    ],
)  # fmt: skip
def test_what_is_left_of_a_size_is_a_size(function: Function) -> None:
    """``n - k`` is from 0 on, which the ranges of ``n`` and ``k`` do not show: all of it is fused nevertheless."""
    assert check(function, ((10, 5, 2), (14, 6, 3), (19, 7, 4))) == 1
    (graph,) = autofuse.clients.torch.report().graphs
    assert not graph.not_fused, graph.not_fused
    assert not graph.at_run_time, graph.at_run_time


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, k: torch.relu(x[k:]).sum(0) + torch.exp(x[y.shape[0] :]).sum(0) + y[-1],
        lambda x, y, k: torch.relu(x[y.shape[0] - k :]) * 2 + (y * 3).sum(0),
    ],
    ids=["two of one size", "of two sizes"],
)
def test_what_has_no_symbol_of_its_own(function: Function) -> None:
    """PyTorch computes what needs it, and all is right."""
    check(function, SIZES)


def test_gradients_of_what_is_left() -> None:
    def function(x: torch.Tensor, k: int) -> torch.Tensor:
        return (torch.tanh(x[k:]) * x[k:]).sum()

    compiled = torch.compile(function, backend="autofuse", options=OPTIONS, dynamic=True)
    for n, k in ((6, 2), (9, 4), (40, 39)):
        x = torch.randn(n, 3, requires_grad=True)
        same = x.detach().clone().requires_grad_()
        compiled(x, k).backward()
        function(same, k).backward()
        torch.testing.assert_close(x.grad, same.grad)
