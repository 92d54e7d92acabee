"""Operators of language and vision models, forward and backward, at model sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from rows import (
    Case,
    Function,
    Maker,
    Row,
    Shape,
    backward_aim,
    elements_at,
    forward_aim,
    wide,
)

from sets.sweep import DTYPE_NAMES, layer_norm

_Make = Callable[[Maker, Shape, torch.dtype], Case]

_F16, _BF16, _F32 = torch.float16, torch.bfloat16, torch.float32
_EPS = 1e-5


def _of_normal(function: Function, split: int = 1) -> _Make:
    return lambda make, shape, dtype: Case(function, (make.normal(shape, dtype),), split=split)


# rows -----------------------------------------------------------------------------------------


def _normalised(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the RMS norm, computed in float32."""
    h = wide(x)
    return h * torch.rsqrt(h.square().mean(-1, keepdim=True) + _EPS) * weight


def _rms_norm(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    inputs = (make.normal(shape, dtype), make.normal(shape[-1:], dtype))
    function = lambda x, w: _normalised(x, w).to(x.dtype)  # noqa: E731
    return Case(function, inputs, split=1, gradients=(0, 1))


def _rms_norm_residual(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    def function(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> Any:
        h = x + residual
        return _normalised(h, weight).to(x.dtype), h

    weight = make.normal(shape[-1:], dtype)
    return Case(function, (make.normal(shape, dtype), make.normal(shape, dtype), weight), split=2)


def _masked_softmax(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    batch, _, queries, keys = shape
    hidden = make.truths((batch, 1, queries, keys))
    hidden[..., 0] = False  # every row keeps at least one key
    return Case(
        lambda x, m: torch.softmax((x * 0.125).masked_fill(m, -math.inf), -1),
        (make.normal(shape, dtype), hidden),
        split=2,
        gradients=(0,),
    )


def _cross_entropy(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    return Case(
        lambda x, target: F.cross_entropy(wide(x), target),
        (make.normal(shape, dtype), make.integers(shape[1], shape[:1])),
        gradients=(0,),
    )


def _quantised(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise rows to int8 with one scale each."""
    h = wide(x)
    scale = h.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127
    return (h / scale).round().clamp(-128, 127).to(torch.int8), scale


def _rms_norm_quant(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    inputs = (make.normal(shape, dtype), make.normal(shape[-1:], dtype))
    return Case(lambda x, w: _quantised(_normalised(x, w)), inputs, split=1)


def _outer_scaled(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    scales = (make.normal((shape[0], 1), dtype), make.normal(shape[1:], dtype))
    inputs = (make.normal(shape, dtype), *scales)
    return Case(lambda x, a, b: F.normalize(x, dim=-1) * a * b, inputs, split=2)


# element by element ---------------------------------------------------------------------------


def _swiglu(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    def function(x: torch.Tensor) -> torch.Tensor:
        gate, up = x.unbind(1)
        return F.silu(gate) * up

    tokens, _, width = shape
    return Case(function, (make.normal((tokens, 2, width), dtype),), split=1, gradients=(0,))


def _rope(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    def function(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    angles = make.normal(shape[2:])
    return Case(
        function,
        (make.normal(shape, dtype), angles.cos().to(dtype), angles.sin().to(dtype)),
        split=1,
    )


def _gelu_bias_mask(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    inputs = (make.normal(shape, dtype), make.truths(shape), make.normal(shape[1:], dtype))
    return Case(lambda x, kept, bias: F.gelu(x + bias) * kept * 2.0, inputs, split=2)


def _gelu_bias(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    inputs = (make.normal(shape, dtype), make.normal(shape[1:], dtype))
    return Case(lambda x, bias: F.gelu(x + bias), inputs, split=1, gradients=(0, 1))


def _adamw(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    rate, decay, beta1, beta2, step = 1e-3, 1e-2, 0.9, 0.999, 10

    def function(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> Any:
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        spread = (v / (1 - beta2**step)).sqrt() + 1e-8
        return p * (1 - rate * decay) - rate / (1 - beta1**step) * m / spread, m, v

    moments = (make.normal(shape, dtype), make.uniform(shape, dtype))
    return Case(function, (make.normal(shape, dtype), make.normal(shape, dtype), *moments), split=4)


def _cat_relu(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    tokens, width = shape
    parts = tuple(make.normal((tokens, w), dtype) for w in (width // 4, width // 4, width // 2))
    return Case(lambda *x: torch.cat(x, 1).relu(), parts, split=3)


def _halves(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1) + x


def _pad_add(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    n, c, h, w = shape
    inputs = (make.normal(shape, dtype), make.normal((n, c, h + 2, w + 2), dtype))
    return Case(lambda x, y: F.pad(x, (1, 1, 1, 1)) + y, inputs, split=2)


def _chain(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * 2 + 1) * torch.sigmoid(x) - x.abs()


def _embedding(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    tokens, entries, width = shape
    inputs = (make.integers(entries, (tokens,)), make.normal((entries, width), dtype))
    return Case(lambda index, table: F.embedding(index, table), inputs, split=1)


# statistics over other dimensions -------------------------------------------------------------


def _group_norm(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    inputs = (make.normal(shape, dtype), *(make.normal(shape[1:2], dtype) for _ in range(2)))
    return Case(lambda x, w, b: F.group_norm(x, 32, w, b), inputs, split=1)


def _group_norm_silu(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    inputs = (make.normal(shape, dtype), *(make.normal(shape[1:2], dtype) for _ in range(2)))
    function = lambda x, w, b: F.silu(F.group_norm(x, 32, w, b))  # noqa: E731
    return Case(function, inputs, split=1, gradients=(0, 1, 2))


def _batch_norm(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    inputs = (make.normal(shape, dtype), *(make.normal(shape[1:2], dtype) for _ in range(2)))
    function = lambda x, w, b: F.batch_norm(x, None, None, w, b, True)  # noqa: E731
    return Case(function, inputs, gradients=(0, 1, 2))


def _standardised(x: torch.Tensor) -> torch.Tensor:
    dims = (0, 2, 3)
    return (x - x.mean(dims, keepdim=True)) / (x.std(dims, keepdim=True) + _EPS)


def _argmax(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    inputs = (make.normal(shape, dtype),)
    return Case(lambda x: x.argmax(-1), inputs, split=1, observed=elements_at(-1))


def _row(
    name: str, shape: Shape, dtype: torch.dtype, make: _Make, aim: float | None, **more: Any
) -> Row:
    return Row(name, "operators", shape, make, dtype=dtype, aim=aim, **more)


def _of_rows(op: str, shape: Shape, dtype: torch.dtype, make: _Make, **more: Any) -> Row:
    """Return a forward pass that reads its rows once."""
    name = f"{op} {'x'.join(map(str, shape))} {DTYPE_NAMES[dtype]}"
    return _row(name, shape, dtype, make, forward_aim(shape[-1], dtype), **more)


def _of_norm_backward(op: str, shape: Shape, dtype: torch.dtype, make: _Make, **more: Any) -> Row:
    name = f"{op} bwd {'x'.join(map(str, shape))} {DTYPE_NAMES[dtype]}"
    return _row(name, shape, dtype, make, backward_aim(dtype, norm=True), backward=True, **more)


_LLAMA = (16384, 4096)
_SQUARE = (8192, 8192)
_IMAGES = (64, 256, 56, 56)
_FEATURES = (32, 512, 64, 64)
_SCORES = (4, 16, 1024, 1024)
_ROTATED = (4, 32, 4096, 128)
_CACHE = (8, 4096, 16, 128)
_VOCABULARIES = ((8192, 32000), (4096, 128256))


def _norm_rows() -> tuple[Row, ...]:
    norms = [((87381, 768), _BF16), (_LLAMA, _BF16), (_SQUARE, _BF16), (_LLAMA, _F32)]
    found = [
        _of_rows("rms_norm_residual", _LLAMA, _BF16, _rms_norm_residual),
        _of_rows("rms_norm_residual", _LLAMA, _F16, _rms_norm_residual),
        _of_rows("rms_norm_residual", (64, 4096), _BF16, _rms_norm_residual),
        _of_norm_backward("rms_norm", _LLAMA, _BF16, _rms_norm, peer="rms_norm"),
    ]
    for shape, dtype in norms:
        if dtype != _F32:
            found.append(_of_rows("layer_norm", shape, dtype, layer_norm, peer="layer_norm"))
        found.append(_of_norm_backward("layer_norm", shape, dtype, layer_norm, peer="layer_norm"))
    return tuple(found)


def _loss_rows() -> tuple[Row, ...]:
    found = [
        _of_rows("logsumexp", (8192, 32000), _F32, _of_normal(lambda x: x.logsumexp(-1))),
    ]
    for shape in _VOCABULARIES:
        name = f"{shape[0]}x{shape[1]} bf16"
        common: dict[str, Any] = {"peer": "cross_entropy"}
        found += [
            _row(f"cross_entropy {name}", shape, _BF16, _cross_entropy, 0.93, **common),
            _row(
                f"cross_entropy bwd {name}",
                shape,
                _BF16,
                _cross_entropy,
                0.90,
                backward=True,
                **common,
            ),
        ]
    return tuple(found)


OPERATORS: tuple[Row, ...] = (
    *_norm_rows(),
    *_loss_rows(),
    _row("swiglu 8192x2x14336 bf16", (8192, 2, 14336), _BF16, _swiglu, 0.95),
    _row("swiglu bwd 8192x2x14336 bf16", (8192, 2, 14336), _BF16, _swiglu, None, backward=True),
    _row("rope 4x32x4096x128 bf16", _ROTATED, _BF16, _rope, 0.95),
    _row("masked_softmax 4x16x1024x1024 fp16", _SCORES, _F16, _masked_softmax, 0.95),
    _row(
        "masked_softmax bwd 4x16x1024x1024 fp16",
        _SCORES,
        _F16,
        _masked_softmax,
        0.90,
        backward=True,
    ),
    _row("dynamic_quant 16384x4096 bf16", _LLAMA, _BF16, _of_normal(_quantised), 0.85),
    _row("dynamic_quant 4096x16384 bf16", (4096, 16384), _BF16, _of_normal(_quantised), 0.85),
    _row("rms_norm_quant 16384x4096 bf16", _LLAMA, _BF16, _rms_norm_quant, 0.85),
    _row("adamw 2^26 fp32", (1 << 26,), _F32, _adamw, 0.95),
    _row("gelu_bias_mask 16384x4096 bf16", _LLAMA, _BF16, _gelu_bias_mask, 0.95),
    _row("gelu_bias bwd 16384x4096 bf16", _LLAMA, _BF16, _gelu_bias, None, backward=True),
    _row("group_norm 32x512x64x64 fp16 g32", _FEATURES, _F16, _group_norm, 0.85),
    _row(
        "group_norm+silu bwd 32x512x64x64 fp16 g32",
        _FEATURES,
        _F16,
        _group_norm_silu,
        0.80,
        backward=True,
    ),
    _row("batch_norm train 64x256x56x56 fp32", _IMAGES, _F32, _batch_norm, 0.85),
    _row("batch_norm bwd 64x256x56x56 fp32", _IMAGES, _F32, _batch_norm, 0.85, backward=True),
    _row("embedding 65536 of 32000x1024 bf16", (65536, 32000, 1024), _BF16, _embedding, None),
    _row(
        "kv transpose 8x4096x16x128 fp16",
        _CACHE,
        _F16,
        _of_normal(lambda x: x.transpose(1, 2).contiguous()),
        0.95,
    ),
    _row(
        "transpose 8192x8192 fp32", _SQUARE, _F32, _of_normal(lambda x: x.t().contiguous(), 0), None
    ),
    _row(
        "transpose 8192x8192 fp16", _SQUARE, _F16, _of_normal(lambda x: x.t().contiguous(), 0), None
    ),
    _row(
        "softmax dim0 8192x8192 fp32",
        _SQUARE,
        _F32,
        _of_normal(lambda x: x.softmax(0), 0),
        0.85,
    ),
    _row(
        "softmax dim1 64x1024x1024 fp32",
        (64, 1024, 1024),
        _F32,
        _of_normal(lambda x: x.softmax(1)),
        0.85,
    ),
    _row("sum dim0 65536x1024 fp32", (65536, 1024), _F32, _of_normal(lambda x: x.sum(0), 0), 0.95),
    _row("sum all 2^28 fp32", (1 << 28,), _F32, _of_normal(lambda x: x.sum(), 0), 0.95),
    _row(
        "mean,var all 2^27 fp32", (1 << 27,), _F32, _of_normal(lambda x: torch.var_mean(x), 0), 0.95
    ),
    _row("cat3 + relu 16384x4096 fp32", _LLAMA, _F32, _cat_relu, 0.95),
    _row("concat_halves+add 16384x4096 fp16", _LLAMA, _F16, _of_normal(_halves), 0.95),
    _row("cumsum 8192x8192 fp32", _SQUARE, _F32, _of_normal(lambda x: x.cumsum(-1)), 0.95),
    _row(
        "cumsum of softmax 8192x8192 fp32",
        _SQUARE,
        _F32,
        _of_normal(lambda x: x.softmax(-1).cumsum(-1)),
        0.95,
    ),
    _row("pad+add 64x256x96x96 fp32", (64, 256, 96, 96), _F32, _pad_add, 0.95),
    _row(
        "std+mean norm dim(0,2,3) 64x256x56x56 fp32",
        _IMAGES,
        _F32,
        _of_normal(_standardised, 0),
        0.85,
    ),
    _row("argmax 16384x8192 fp32", (16384, 8192), _F32, _argmax, 0.95),
    _row("l2 normalise + outer scale 16384x4096 fp32", _LLAMA, _F32, _outer_scaled, 0.95),
    _row("chain of small 4096 fp32", (4096,), _F32, _of_normal(_chain), None),
    _row("small softmax 32x128 fp32", (32, 128), _F32, _of_normal(lambda x: x.softmax(-1)), None),
)
