"""Indices and masks that PyTorch writes in int64, compiled, on the CPU twin: softmax with masks, losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

import autofuse.clients.torch

pytestmark = pytest.mark.twin

OPTIONS = {"target": "ascend910b1", "opt": "-O0", "min_ops": 1, "fallback": "error"}


def same(function: Callable[..., Any], x: torch.Tensor, *others: torch.Tensor) -> None:
    """The result and the gradient of ``x`` are those of PyTorch."""
    made = torch.compile(function, backend="autofuse", options=OPTIONS, dynamic=False)
    results = []
    for f in (made, function):
        leaf = x.clone().requires_grad_()
        y = f(leaf, *others)
        y.square().sum().backward()
        results.append((y.detach(), leaf.grad))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)
    assert any(g.fused for g in autofuse.clients.torch.report().graphs)


def test_causal_softmax() -> None:
    def causal(s: torch.Tensor) -> torch.Tensor:
        n = s.shape[-1]
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        return torch.softmax(torch.where(mask, s * 0.088, -1e9), -1)

    same(causal, torch.randn(2, 3, 40, 40))


def test_distances_of_alibi() -> None:
    def alibi(s: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        n = s.shape[-1]
        d = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        return torch.softmax(torch.where(d > 0, -float("inf"), s + slope[:, None, None] * d), -1)

    same(alibi, torch.randn(2, 3, 24, 24), torch.rand(3))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(smoothing: float) -> None:
    target = torch.randint(0, 50, (9,))
    target[4] = -100

    def loss(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, t, label_smoothing=smoothing)

    same(loss, torch.randn(9, 50), target)


def test_one_hot_and_hits() -> None:
    def hits(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return (x * F.one_hot(t, 30).to(x.dtype)).sum(-1) * (x.argmax(-1) == t)

    same(hits, torch.randn(9, 30), torch.randint(0, 30, (9,)))
