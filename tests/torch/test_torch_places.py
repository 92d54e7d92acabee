"""What PyTorch writes as places along dimensions: rolls, borders, images made larger, indices of several dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import autofuse.clients.torch

pytestmark = pytest.mark.twin

OPTIONS = {"target": "ascend910b1", "opt": "-O0", "min_ops": 1, "fallback": "error"}


def one_kernel(function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    """The same numbers, strides and element type, by one kernel alone."""
    have = torch.compile(function, backend="autofuse", options=OPTIONS)(*inputs)
    want = function(*inputs)
    assert have.stride() == want.stride()
    torch.testing.assert_close(have, want, rtol=2e-5, atol=2e-5)
    (graph,) = autofuse.clients.torch.report().graphs
    assert len(graph.fused) == 1
    assert {op for op, _ in graph.not_fused} <= {"aten.empty.memory_format"}


@pytest.mark.parametrize(
    "moved",
    [
        lambda x: torch.roll(x, (2, -3), (2, 3)),
        lambda x: torch.flip(x, (1, 3)),
        lambda x: functional.pad(x, (2, 1, 1, 3), mode="reflect"),
        lambda x: functional.pad(x, (2, 1, 0, 3), mode="replicate"),
        lambda x: functional.pad(x, (2, 1, 1, 3), mode="circular"),
        lambda x: functional.interpolate(x, scale_factor=2, mode="nearest"),
        lambda x: functional.interpolate(x, size=(11, 5), mode="nearest"),
        lambda x: functional.interpolate(x, scale_factor=2, mode="nearest-exact"),
    ],
    ids=["roll", "flip", "reflect", "replicate", "circular", "twice", "nearest", "exact"],
)
def test_moves(moved: Callable[[torch.Tensor], torch.Tensor]) -> None:
    one_kernel(lambda x: torch.relu(moved(x) * 0.5), torch.randn(2, 3, 7, 9))


@pytest.mark.parametrize(
    "taken",
    [
        lambda x, i, j: x[:, i[:, None], j],
        lambda x, i, j: x[:, j[None] % 3, i[:, None]],
        lambda x, i, j: x[i[:, None] % 2, :, j],
        lambda x, i, j: x[j[None, :] % 2, i[:, None]],
        lambda x, i, j: x[:, :, j[:, None, None], i[:, None]],
        lambda x, i, j: x[:, i, torch.arange(1)],
        lambda x, i, j: x[torch.arange(1), i[:, None], :, j - 9],
    ],
)
def test_places_in_several_dimensions(taken: Callable[..., torch.Tensor]) -> None:
    """Each index is along a dimension of its own."""

    def function(x: torch.Tensor) -> torch.Tensor:
        i, j = torch.arange(3), 6 - 2 * torch.arange(4)
        return taken(x, 2 - i, j % 7) + 1.0

    one_kernel(function, torch.randn(2, 3, 7, 9))


def test_places_that_only_a_call_knows() -> None:
    def function(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return x[i[:, None] - 1, j] * 2.0

    i, j = torch.randint(0, 4, (50,)), torch.randint(-5, 5, (70,))
    one_kernel(function, torch.randn(4, 5, 1), i, j)


def test_pairs_of_places_are_left_to_pytorch() -> None:
    def function(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i, i] + 1.0

    x, i = torch.randn(4, 5), torch.randint(0, 4, (6,))
    made = torch.compile(function, backend="autofuse", options={"target": "ascend910b1"})
    torch.testing.assert_close(made(x, i), function(x, i))
    assert "data-dependent index in several dimensions" in str(autofuse.clients.torch.report())


# gradients of parts ---------------------------------------------------------------------------


def variation(x: torch.Tensor) -> torch.Tensor:
    return (x[:, :, 1:] - x[:, :, :-1]).abs().mean() + (x[..., 1:] - x[..., :-1]).square().mean()


def edges(x: torch.Tensor) -> torch.Tensor:
    across = x[:, :, 1:-1, 2:] - x[:, :, 1:-1, :-2]
    return (across.abs() + (x[:, :, 2:, 1:-1] - x[:, :, :-2, 1:-1]).abs()).sum()


@pytest.mark.parametrize("loss", [variation, edges])
@pytest.mark.parametrize("shape", [(2, 3, 9, 17), (1, 2, 40, 65)], ids=str)
def test_zeros_around_gradients(
    loss: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]
) -> None:
    x = torch.randn(shape)
    have, want = (x.clone().requires_grad_(True) for _ in range(2))
    torch.compile(loss, backend="autofuse", options=OPTIONS)(have).backward()
    loss(want).backward()
    torch.testing.assert_close(have.grad, want.grad)


def test_classes_of_pixels() -> None:
    def loss(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(x, t)

    x, t = torch.randn(3, 7, 10, 13) * 5, torch.randint(0, 7, (3, 10, 13))
    t[0, :2] = -100
    have, want = (x.clone().requires_grad_(True) for _ in range(2))
    a, b = torch.compile(loss, backend="autofuse", options=OPTIONS)(have, t), loss(want, t)
    torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)
    a.backward()
    b.backward()
    torch.testing.assert_close(have.grad, want.grad, rtol=2e-5, atol=2e-5)
