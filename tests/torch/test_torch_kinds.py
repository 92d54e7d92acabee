"""Kinds of ops in what Inductor makes of models, for which neither the table of ops has a row nor a reason is known.

The models are made of ``torch.nn`` alone.  On 2026-12-01, with PyTorch 2.14.1 on a CPU, those of
``benchmarks/models/zoo.py`` at small sizes, which also need transformers and timm, had no kind outside of this table.
"""

from __future__ import annotations

import importlib.util
import operator
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._inductor.compile_fx import compile_fx
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.fx_passes.post_grad import post_grad_passes
from torch._inductor.virtualized import V
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it

from autofuse.clients.torch.inductor.regions import PLACE
from autofuse.clients.torch.ops.table import find
from autofuse.clients.torch.refusal import REASONS

#: Model -> the kinds that are lacking for it.
LACKING: dict[str, set[str]] = {
    "activations": {"aten.glu.default"},
    # Its inference, without a mask, is one op of PyTorch's own.
    "encoder": {"aten._transformer_encoder_layer_fwd.default"},
    "images": {
        "aten._adaptive_avg_pool2d_backward.default",
        "aten._unsafe_masked_index.default",
        "aten.avg_pool3d_backward.default",
        "aten.replication_pad2d_backward.default",
    },
}


class Kinds(CustomGraphPass):  # type: ignore[misc]
    """A pass at the position of autofuse, which notes kinds of ops."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.graphs = 0

    def __call__(self, graph: torch.fx.Graph) -> None:
        self.graphs += 1
        for n in graph.nodes:
            if n.op == "call_function" and _has_tensors(n) and _is_unknown(n.target):
                self.found.add(str(n.target))

    def uuid(self) -> Any:
        return None


def _has_tensors(n: torch.fx.Node) -> bool:
    values = n.meta.get("val")
    values = values if isinstance(values, list | tuple) else [values]
    return any(isinstance(v, torch.Tensor) for v in values)


def _is_unknown(target: Any) -> bool:
    if not isinstance(target, torch._ops.OpOverload):
        return target is not operator.getitem
    return find(target) is None and target.overloadpacket.__name__ not in REASONS


def kinds(model: nn.Module, given: Sequence[Any], trains: bool) -> set[str]:
    """The unknown kinds in the graphs of a model, forward and backward."""
    seen = Kinds()

    def inner(gm: torch.fx.GraphModule, inputs: Any, **how: Any) -> Any:
        with V.set_fake_mode(torch._guards.detect_fake_mode(inputs)):
            post_grad_passes(gm, bool(how.get("is_inference")))
        return make_boxed_func(gm.forward)

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        return compile_fx(gm, inputs, inner_compile=inner, config_patches={PLACE: seen})

    model.train(trains)
    with torch.set_grad_enabled(trains):
        found = torch.compile(model, backend=backend, fullgraph=True)(*given)
        if trains:
            found.float().square().mean().backward()
    assert seen.graphs == 1 + trains
    return seen.found


# models ---------------------------------------------------------------------------------------


class Decoder(nn.Module):  # type: ignore[misc]
    """A block of a language model: root mean squares, rotated pairs, gates, a mask, and a loss over words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(97, 32)
        self.norm, self.last = nn.RMSNorm(32), nn.RMSNorm(32)
        self.qkv, self.out = nn.Linear(32, 96, bias=False), nn.Linear(32, 32, bias=False)
        self.gate, self.up, self.down = nn.Linear(32, 48), nn.Linear(32, 48), nn.Linear(48, 32)
        self.head = nn.Linear(32, 97, bias=False)

    def forward(self, at: torch.Tensor) -> torch.Tensor:
        x = self.words(at)
        b, n, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, 4, 8).permute(2, 0, 3, 1, 4)
        angles = torch.outer(torch.arange(n), 10000.0 ** (-torch.arange(4) / 4))
        sin, cos = angles.sin(), angles.cos()
        q, k = (
            torch.cat((a * cos - c * sin, c * cos + a * sin), -1)
            for a, c in (t.chunk(2, -1) for t in (q, k))
        )
        scores = (q @ k.transpose(-1, -2)) / 8**0.5
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, width))
        x = self.last(x)
        x = x + self.down(F.silu(self.gate(x)) * self.up(x))
        return F.cross_entropy(self.head(x)[:, :-1].flatten(0, 1), at[:, 1:].flatten())


class Recurrent(nn.Module):  # type: ignore[misc]
    """Two cells, one after the other at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTMCell(8, 16), nn.GRUCell(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, c, found = x.new_zeros(2, 16), x.new_zeros(2, 16), x.new_zeros(2, 8)
        for step in x:
            h, c = self.first(step, (h, c))
            found = self.second(h, found)
        return found


class Layers(nn.Module):  # type: ignore[misc]
    """Layers in a row."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Experts(nn.Module):  # type: ignore[misc]
    """The best two of some experts for every row."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(16, 4)
        self.weights = nn.Parameter(torch.randn(4, 16, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values, at = torch.topk(self.gate(x).softmax(-1), 2)
        every = torch.einsum("bi,eij->bej", x, self.weights)
        return (every.gather(1, at[..., None].expand(-1, -1, 16)) * values[..., None]).sum(1)


class Losses(nn.Module):  # type: ignore[misc]
    """The losses of torch.nn that take two tensors of one shape."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(32))
        self.losses = nn.ModuleList(
            [
                nn.MSELoss(),
                nn.L1Loss(),
                nn.SmoothL1Loss(),
                nn.HuberLoss(),
                nn.KLDivLoss(reduction="batchmean"),
            ]
        )
        self.losses += [nn.BCEWithLogitsLoss(), nn.PoissonNLLLoss(), nn.SoftMarginLoss()]

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x * self.scale
        near = F.cosine_similarity(x, y) + F.pairwise_distance(x, y)
        return sum((loss(x, y) for loss in self.losses), near.mean())


def _activations() -> nn.Module:
    names = "CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish PReLU ReLU6 SELU"
    names += " SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink"
    return Layers(*(getattr(nn, name)() for name in names.split()), nn.GLU(), nn.LogSoftmax(-1))


def _images() -> nn.Module:
    return Layers(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.GroupNorm(4, 16),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.InstanceNorm2d(16),
        nn.PixelShuffle(2),
        nn.ReflectionPad2d(1),
        nn.ReplicationPad2d(1),
        nn.ZeroPad2d(1),
        nn.LocalResponseNorm(2),
        nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(64, 10),
    )


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "decoder": (Decoder, (torch.randint(0, 97, (2, 12)),)),
    "encoder": (_encoder, (torch.randn(2, 12, 32),)),
    "recurrent": (Recurrent, (torch.randn(3, 2, 8),)),
    "images": (_images, (torch.randn(2, 3, 32, 32),)),
    "activations": (_activations, (torch.randn(4, 32),)),
    "losses": (Losses, (torch.randn(4, 32), torch.rand(4, 32))),
    "experts": (Experts, (torch.randn(6, 16),)),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    build, given = MODELS[name]
    check(name, build(), given)


@pytest.mark.parametrize(
    "name", ["unet training", "recommender training", "graph network training"]
)
def test_models_of_the_zoo(repo: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.spec_from_file_location("zoo", repo / "benchmarks" / "models" / "zoo.py")
    assert found is not None
    assert found.loader is not None
    zoo = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "zoo", zoo)
    found.loader.exec_module(zoo)
    model, given = zoo.MODELS[name].build(True)
    check(name, model, list(given.values()))


def check(name: str, model: nn.Module, given: Sequence[Any]) -> None:
    """Exactly what the table names is lacking."""
    found = kinds(model, given, trains=False) | kinds(model, given, trains=True)
    known = LACKING.get(name, set())
    new, gone = sorted(found - known), sorted(known - found)
    assert not new, (
        f"no row for {', '.join(new)}: add it, or a reason (refusal.py), or name it here"
    )
    assert not gone, f"{', '.join(gone)} has a row, or no longer occurs: take it off the table"


def test_a_kind_without_a_row_is_named() -> None:
    with pytest.raises(AssertionError, match=r"no row for aten\.glu\.default: add it"):
        check("a model", Layers(nn.Linear(4, 8), nn.GLU()), (torch.randn(3, 4),))
