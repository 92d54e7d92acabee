"""Modules of real networks, with inputs for every batch size, and what tests that compile them look at."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it

import autofuse.clients.torch

__all__ = ["CASES", "CLOSE", "Case", "check_report", "same", "step"]

CLOSE = {"rtol": 2e-5, "atol": 2e-5}


@dataclass(frozen=True)
class Case:
    """A module and what it is called with.

    Attributes:
        name: of the case.
        make: the module.
        inputs: from a batch size to the arguments; those of float have gradients.
        eager: ops that PyTorch runs, as the report names them.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int], Sequence[torch.Tensor]]
    eager: frozenset[str] = frozenset()


class Function(nn.Module):
    """A function with parameters."""

    def __init__(self, call: Callable[..., torch.Tensor], **shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.call = call
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape)))

    def forward(self, *xs: torch.Tensor) -> torch.Tensor:
        return self.call(*xs, **dict(self.named_parameters()))


MATMUL = frozenset({"aten.addmm", "aten.mm", "aten.bmm"})


def _tokens(*shape: int) -> Callable[[int], list[torch.Tensor]]:
    return lambda n: [torch.randn(n, *shape)]


def _swiglu(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(x @ gate) * (x @ up)


def _attention(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    scaled = scores / math.sqrt(16)
    return torch.softmax(scaled.masked_fill(mask, float("-inf")), dim=-1)


def _causal(scores: torch.Tensor) -> torch.Tensor:
    n = scores.shape[-1]
    allowed = torch.ones(n, n, dtype=torch.bool, device=scores.device).tril()
    return torch.softmax(torch.where(allowed, scores, -1e9), dim=-1)


def _rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


def _cross_entropy(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, target, reduction="none")


def _nll(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    picked = F.log_softmax(x, dim=-1).gather(1, target.unsqueeze(1))
    return -picked.squeeze(1)


def _squeeze_excite(x: torch.Tensor, down: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    pooled = x.mean((2, 3))
    gate = torch.sigmoid(F.relu(pooled @ down) @ up)
    return x * gate[:, :, None, None]


def _rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def _residual_norm(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x + y, (24,), weight)


def _pooling(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    wide = mask.unsqueeze(-1).to(x.dtype)
    return (x * wide).sum(1) / wide.sum(1).clamp(min=1e-9)


def _positions(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    places = torch.arange(x.shape[1], device=x.device)
    return x + F.embedding(places, table)


def _label_smoothing(x: torch.Tensor) -> torch.Tensor:
    logs = F.log_softmax(x, dim=-1)
    return -(0.9 * logs[..., 0] + 0.1 * logs.mean(-1))


class BatchNorm(nn.Module):
    """Batch normalisation as it is used after training, with an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(6).eval()
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(x))


def _mask(n: int) -> list[torch.Tensor]:
    mask = torch.rand(n, 1, 7, 9) < 0.3
    mask[..., 0] = False
    return [torch.randn(n, 2, 7, 9), mask]


def _labelled(n: int) -> list[torch.Tensor]:
    return [torch.randn(n, 11), torch.randint(0, 11, (n,))]


CASES: tuple[Case, ...] = (
    Case("mlp_gelu", lambda: nn.Sequential(nn.Linear(8, 24), nn.GELU()), _tokens(8), MATMUL),
    Case(
        "mlp_gelu_tanh",
        lambda: nn.Sequential(nn.Linear(8, 24), nn.GELU(approximate="tanh")),
        _tokens(8),
        MATMUL,
    ),
    Case("layer_norm", lambda: nn.LayerNorm(24), _tokens(5, 24)),
    Case("rms_norm", lambda: Function(_rms, weight=(24,)), _tokens(5, 24)),
    Case("group_norm", lambda: nn.GroupNorm(2, 6), _tokens(6, 4, 5)),
    Case("batch_norm_inference", BatchNorm, _tokens(6, 4, 5)),
    Case("swiglu", lambda: Function(_swiglu, gate=(8, 12), up=(8, 12)), _tokens(8), MATMUL),
    Case("attention_mask", lambda: Function(_attention), _mask),
    Case("causal_softmax", lambda: Function(_causal), _tokens(2, 9, 9)),
    Case(
        "rotary_embedding",
        lambda: Function(_rotary),
        lambda n: [torch.randn(n, 2, 6, 8), torch.randn(6, 8), torch.randn(6, 8)],
    ),
    Case("cross_entropy", lambda: Function(_cross_entropy), _labelled),
    # A gather may have fewer rows than its data, so that its gradient is a scattered write where the sizes are symbols.
    Case("log_softmax_nll", lambda: Function(_nll), _labelled, frozenset({"aten.scatter_add"})),
    Case("label_smoothing", lambda: Function(_label_smoothing), _tokens(11)),
    Case(
        "dropout_off",
        lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5).eval(), nn.ReLU()),
        _tokens(8),
        MATMUL,
    ),
    Case(
        "positional_embedding",
        lambda: Function(_positions, table=(12, 8)),
        _tokens(5, 8),
        # Its name changes from one release to another.
        frozenset({"aten._unsafe_masked_index_put_accumulate", "aten.index_put"}),
    ),
    Case(
        "mean_pooling",
        lambda: Function(_pooling),
        lambda n: [torch.randn(n, 5, 8), torch.rand(n, 5) < 0.7],
    ),
    Case(
        "residual_layer_norm",
        lambda: Function(_residual_norm, weight=(24,)),
        lambda n: [torch.randn(n, 24), torch.randn(n, 24)],
    ),
    Case("hardswish_mish", lambda: nn.Sequential(nn.Hardswish(), nn.Mish()), _tokens(13)),
    Case(
        "squeeze_excite",
        lambda: Function(_squeeze_excite, down=(6, 3), up=(3, 6)),
        _tokens(6, 4, 5),
        MATMUL,
    ),
    Case(
        "huber_loss",
        lambda: Function(lambda x, y: F.huber_loss(x, y, reduction="none").sum(-1)),
        lambda n: [torch.randn(n, 13), torch.randn(n, 13)],
    ),
    Case(
        "cosine_similarity",
        lambda: Function(lambda x, y: F.cosine_similarity(x, y, dim=-1)),
        lambda n: [torch.randn(n, 13), torch.randn(n, 13)],
    ),
    Case("softplus_elu", lambda: nn.Sequential(nn.Softplus(), nn.ELU()), _tokens(13)),
)


def step(
    module: nn.Module, call: Callable[..., Any], inputs: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The result, and the gradients of inputs and parameters."""
    for x in inputs:
        x.requires_grad_(x.is_floating_point())
        x.grad = None
    module.zero_grad()
    out = call(*inputs)
    torch.manual_seed(7)
    out.backward(torch.randn_like(out))
    grads = [x.grad for x in (*inputs, *module.parameters()) if x.requires_grad]
    return [out.detach(), *(g for g in grads if g is not None)]


def same(module: nn.Module, compiled: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> None:
    """Result and gradients of a compiled module are those of the module, strides too."""
    have, want = step(module, compiled, inputs), step(module, module, inputs)
    assert len(have) == len(want)
    for a, b in zip(have, want, strict=True):
        assert a.stride() == b.stride() or a.numel() == 0
        torch.testing.assert_close(a, b, **CLOSE)


def check_report(case: Case, *reasons: str) -> None:
    """Kernels took the module, but for ops that the case names, and reasons with one of these words in it."""
    graphs = autofuse.clients.torch.report().graphs
    assert any(g.fused for g in graphs)
    excused = ("min_ops", *reasons)
    left = {
        op: why for g in graphs for op, why in g.not_fused if not any(w in why for w in excused)
    }
    assert left.keys() <= case.eager, left
    assert not [why for g in graphs for why in g.at_run_time]
