"""Models from public configurations, with random weights: what to build, and what one step of it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import nn


@dataclass(frozen=True)
class Model:
    """One line of the table.

    Attributes:
        build: returns a module and the keyword arguments of a call, for a device; ``small``: a configuration for tests.
        trains: a step is forward, loss and backward; otherwise forward without gradients.
        dtype: element type of the parameters.
        autocast: element type of autocast; None: off.
        channels_last: images and weights are laid out channels-last.
    """

    build: Callable[[bool], tuple[nn.Module, dict[str, Any]]]
    trains: bool = False
    dtype: torch.dtype = torch.float32
    autocast: torch.dtype | None = None
    channels_last: bool = False


def loss_of(found: Any) -> torch.Tensor:
    """Return a number to differentiate, from what a model returns."""
    if isinstance(found, Mapping) or hasattr(found, "loss"):
        if getattr(found, "loss", None) is not None:
            return found.loss  # type: ignore[no-any-return]
        found = found["logits"] if "logits" in found else found["last_hidden_state"]
    if isinstance(found, tuple | list):
        found = found[0]
    return found if found.dim() == 0 else found.float().square().mean()


# language -------------------------------------------------------------------------------------


def _language(
    kind: str, batch: int, length: int, small: Mapping[str, Any], **config: Any
) -> Callable[[bool], tuple[nn.Module, dict[str, Any]]]:
    """Return a builder of a model of transformers: ``kind`` is ``Config/Model``."""

    def build(is_small: bool) -> tuple[nn.Module, dict[str, Any]]:
        import transformers

        config_name, model_name = kind.split("/")
        made = getattr(transformers, config_name)(**{**config, **(small if is_small else {})})
        module = getattr(transformers, model_name)(made)
        shape = (2, 16) if is_small else (batch, length)
        ids = torch.randint(0, made.vocab_size, shape)
        given: dict[str, Any] = {"input_ids": ids}
        if "MaskedLM" in model_name or "CausalLM" in model_name or "LMHead" in model_name:
            given["labels"] = ids
        if "Conditional" in model_name:
            given["labels"] = ids
        if "Classification" in model_name:
            given["labels"] = torch.randint(0, 2, shape[:1])
        return module, given

    return build


_TINY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 211}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_TINY_LLAMA = {**_TINY, "intermediate_size": 96, "num_key_value_heads": 2}
_TINY_GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 211}
_LLAMA = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
}

# images ---------------------------------------------------------------------------------------


def _image(name: str, batch: int, size: int = 224) -> Callable[[bool], Any]:
    """Return a builder of a model of timm."""

    def build(is_small: bool) -> tuple[nn.Module, dict[str, Any]]:
        import timm

        module = timm.create_model(name, pretrained=False, num_classes=100)
        for weight in module.parameters():
            # Some heads begin with zeros: no gradient would reach the rest.
            if weight.dim() > 1 and not weight.any():
                nn.init.normal_(weight, std=0.02)
        side = 64 if is_small and not name.endswith("224") else size
        x = torch.randn(2 if is_small else batch, 3, side, side)
        return module, {"x": x}

    return build


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.into = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.out = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h = self.into(F.silu(self.first(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.out(F.silu(self.second(h))) + self.skip(x)


class _UNet(nn.Module):
    """The shape of a diffusion model: residual blocks, two levels down and up, a time embedding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.begin = nn.Conv2d(4, width, 3, padding=1)
        sizes = [(width, width), (width, 2 * width), (2 * width, 4 * width)]
        self.down = nn.ModuleList(_Block(a, b, width) for a, b in sizes)
        self.up = nn.ModuleList(_Block(2 * b, a, width) for a, b in reversed(sizes))
        self.end = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h, kept = self.begin(x), []
        for block in self.down:
            h = block(h, t)
            kept.append(h)
            h = F.avg_pool2d(h, 2)
        for block in self.up:
            h = F.interpolate(h, scale_factor=2.0, mode="nearest")
            h = block(torch.cat((h, kept.pop()), 1), t)
        return self.end(F.silu(h))


def _unet(is_small: bool) -> tuple[nn.Module, dict[str, Any]]:
    width, batch, size = (16, 2, 16) if is_small else (128, 8, 64)
    return _UNet(width), {"x": torch.randn(batch, 4, size, size), "t": torch.randn(batch, width)}


# others ---------------------------------------------------------------------------------------


class _Recommender(nn.Module):
    """The shape of DLRM: embedding tables, two perceptrons, products of pairs."""

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, dense: torch.Tensor, at: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        found = torch.stack([x, *(t(at[:, k]) for k, t in enumerate(self.tables))], 1)
        products = torch.bmm(found, found.transpose(1, 2))
        i, j = torch.tril_indices(found.shape[1], found.shape[1], -1)
        z = torch.cat((x, products[:, i, j]), 1)
        return F.binary_cross_entropy_with_logits(self.top(z).squeeze(-1), y)


def _recommender(is_small: bool) -> tuple[nn.Module, dict[str, Any]]:
    tables, rows, width, batch = (4, 50, 16, 8) if is_small else (26, 100_000, 64, 8192)
    at = torch.randint(0, rows, (batch, tables))
    y = torch.rand(batch)
    return _Recommender(tables, rows, width), {"dense": torch.randn(batch, 13), "at": at, "y": y}


class _Graphs(nn.Module):
    """Message passing: gathered rows of both ends, a perceptron, and sums per node."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.edges = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for linear, norm in zip(self.edges, self.norms, strict=True):
            sent = F.silu(linear(torch.cat((x[a], x[b]), -1)))
            x = norm(x + torch.zeros_like(x).index_add(0, b, sent.to(x.dtype)))
        return x


def _graphs(is_small: bool) -> tuple[nn.Module, dict[str, Any]]:
    nodes, edges, width = (50, 200, 16) if is_small else (20_000, 200_000, 128)
    a, b = torch.randint(0, nodes, (2, edges))
    return _Graphs(width), {"x": torch.randn(nodes, width), "a": a, "b": b}


_F16, _BF16 = torch.float16, torch.bfloat16
MODELS: dict[str, Model] = {
    "bert masked training": Model(
        _language("BertConfig/BertForMaskedLM", 16, 256, _TINY, **_NO_DROPOUT), True, autocast=_BF16
    ),
    "bert classifier training": Model(
        _language("BertConfig/BertForSequenceClassification", 16, 128, _TINY, **_NO_DROPOUT), True
    ),
    "gpt2 training": Model(
        _language(
            "GPT2Config/GPT2LMHeadModel",
            8,
            512,
            _TINY_GPT,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        ),
        True,
        _BF16,
    ),
    "gpt2 dropout training": Model(
        _language("GPT2Config/GPT2LMHeadModel", 4, 512, _TINY_GPT), True, _BF16
    ),
    "t5 training": Model(
        _language(
            "T5Config/T5ForConditionalGeneration",
            8,
            256,
            {"d_model": 64, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 211},
            dropout_rate=0.0,
            decoder_start_token_id=0,
        ),
        True,
    ),
    "llama training": Model(
        _language(
            "LlamaConfig/LlamaForCausalLM", 2, 1024, _TINY_LLAMA, num_hidden_layers=8, **_LLAMA
        ),
        True,
        _BF16,
    ),
    "llama inference": Model(
        _language(
            "LlamaConfig/LlamaForCausalLM", 4, 512, _TINY_LLAMA, num_hidden_layers=16, **_LLAMA
        ),
        False,
        _BF16,
    ),
    "gemma2 inference": Model(
        _language(
            "Gemma2Config/Gemma2ForCausalLM",
            2,
            1024,
            {**_TINY_LLAMA, "head_dim": 16, "query_pre_attn_scalar": 16},
            num_hidden_layers=8,
            hidden_size=2304,
            vocab_size=32000,
        ),
        False,
        _BF16,
    ),
    "qwen2 training": Model(
        _language(
            "Qwen2Config/Qwen2ForCausalLM",
            2,
            1024,
            _TINY_LLAMA,
            num_hidden_layers=8,
            hidden_size=1536,
            intermediate_size=8960,
            num_attention_heads=12,
            num_key_value_heads=2,
            vocab_size=32000,
        ),
        True,
        _BF16,
    ),
    "opt inference": Model(
        _language(
            "OPTConfig/OPTForCausalLM",
            4,
            512,
            {**_TINY, "ffn_dim": 96, "word_embed_proj_dim": 64},
            num_hidden_layers=12,
        ),
        False,
        _F16,
    ),
    "distilbert training": Model(
        _language(
            "DistilBertConfig/DistilBertForMaskedLM",
            16,
            128,
            {"dim": 64, "hidden_dim": 96, "n_layers": 2, "n_heads": 4, "vocab_size": 211},
            dropout=0.0,
            attention_dropout=0.0,
        ),
        True,
        autocast=_BF16,
    ),
    "vit training": Model(_image("vit_base_patch16_224", 32), True, autocast=_BF16),
    "vit inference": Model(_image("vit_base_patch16_224", 64), False, _F16),
    "convnext training": Model(_image("convnext_tiny", 32), True, autocast=_BF16),
    "swin inference": Model(_image("swin_tiny_patch4_window7_224", 32), False, _F16),
    "mixer training": Model(_image("mixer_b16_224", 32), True, autocast=_BF16),
    "resnet training, channels last": Model(
        _image("resnet50", 64), True, autocast=_BF16, channels_last=True
    ),
    "resnet training": Model(_image("resnet50", 64), True),
    "resnet inference": Model(_image("resnet50", 64)),
    "efficientnet inference": Model(_image("efficientnet_b0", 64), False, _F16),
    "unet training": Model(_unet, True),
    "unet inference": Model(_unet, False, _F16),
    "recommender training": Model(_recommender, True),
    "graph network training": Model(_graphs, True),
}
