"""The vector tasks of KernelBench, level 1, at their published sizes.

KernelBench (https://github.com/ScalingIntelligence/KernelBench, MIT) defines every task as a module; names, sizes and
input distributions come from there, the functions are written for this benchmark.  Batch norm runs in evaluation mode,
so its input is read once.  All inputs are float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from rows import Case, Function, Maker, Row, Shape, elements_at, forward_aim

_WIDE = (4096, 393216)
_MAPS = (112, 64, 512, 512)
_LONG = (32768, 65535)
_BLOCK = (128, 4096, 4095)
_SQUARE = (32768, 32768)

_Make = Callable[[Maker, Shape, torch.dtype], Case]


def _of_uniform(function: Function) -> _Make:
    """Return a case for a function of one uniform tensor with independent parts along dimension 0."""
    return lambda make, shape, dtype: Case(function, (make.uniform(shape, dtype),), split=1)


def _whole(function: Function) -> _Make:
    """Return a case for a function of one uniform tensor that needs all of it for every element."""
    return lambda make, shape, dtype: Case(function, (make.uniform(shape, dtype),))


def _loss(function: Function) -> _Make:
    """Return a case for a function of predictions, scaled by a random number, and targets."""

    def make(maker: Maker, shape: Shape, dtype: torch.dtype) -> Case:
        predicted = maker.uniform(shape, dtype).mul_(maker.uniform((), dtype))
        return Case(function, (predicted, maker.uniform(shape, dtype)))

    return make


def _index_of(function: Function) -> _Make:
    return lambda make, shape, dtype: Case(
        function, (make.uniform(shape, dtype),), split=1, observed=elements_at(1)
    )


def _batch_norm(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    mean, spread, weight, bias = (make.uniform(shape[1:2], dtype) for _ in range(4))
    inputs = (make.uniform(shape, dtype), mean, spread + 0.5, weight, bias)
    return Case(lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), inputs, split=1)


def _group_norm(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    weight, bias = (make.uniform(shape[1:2], dtype) for _ in range(2))
    inputs = (make.uniform(shape, dtype), weight, bias)
    return Case(lambda x, w, b: F.group_norm(x, 8, w, b), inputs, split=1)


def _layer_norm(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    weight, bias = (make.uniform(shape[1:], dtype) for _ in range(2))
    inputs = (make.uniform(shape, dtype), weight, bias)
    return Case(lambda x, w, b: F.layer_norm(x, w.shape, w, b), inputs, split=1)


def _masked_cumsum(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    inputs = (make.uniform(shape, dtype), make.truths(shape))
    return Case(lambda x, mask: (x * mask).cumsum(1), inputs, split=2)


def _exclusive_cumsum(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1].cumsum(1)), 1)


def _cross_entropy(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    inputs = (make.uniform(shape, dtype), make.integers(shape[1], shape[:1]))
    return Case(lambda x, target: F.cross_entropy(x, target), inputs)


def _divergence(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    scaled = make.uniform(shape, dtype).mul_(make.uniform((), dtype))
    inputs = (scaled.softmax(1), make.uniform(shape, dtype).softmax(1))
    return Case(lambda p, q: F.kl_div(p.log(), q, reduction="batchmean"), inputs)


def _triplet(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    anchor = make.uniform(shape, dtype).mul_(make.uniform((), dtype))
    inputs = (anchor, make.uniform(shape, dtype), make.uniform(shape, dtype))
    return Case(lambda a, p, n: F.triplet_margin_loss(a, p, n), inputs)


def _hinge(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    signs = make.truths(shape[1:]).to(dtype) * 2 - 1
    inputs = (make.uniform(shape, dtype), signs)
    return Case(lambda x, y: (1 - x * y).clamp(min=0).mean(), inputs)


def _gelu_of_mingpt(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3.0))))


def _row(name: str, shape: Shape, make: _Make, aim: float | None = 0.95, **more: Any) -> Row:
    return Row(name, "kernelbench", shape, make, aim=aim, **more)


def _pool(name: str, shape: Shape, function: Function) -> Row:
    return _row(name, shape, _of_uniform(function), aim=None, counted=False)


_SOFTMAX_AIM = forward_aim(_WIDE[1], torch.float32)
_NORM_AIM = forward_aim(_LONG[1], torch.float32)
_SCAN_AIM = forward_aim(_SQUARE[1], torch.float32)

KERNELBENCH: tuple[Row, ...] = (
    _row("19_ReLU", _WIDE, _of_uniform(torch.relu)),
    _row("20_LeakyReLU", _WIDE, _of_uniform(lambda x: F.leaky_relu(x, 0.01))),
    _row("21_Sigmoid", _WIDE, _of_uniform(torch.sigmoid)),
    _row("22_Tanh", _WIDE, _of_uniform(torch.tanh)),
    _row(
        "23_Softmax",
        _WIDE,
        _of_uniform(lambda x: torch.softmax(x, 1)),
        _SOFTMAX_AIM,
        peer="softmax",
    ),
    _row("24_LogSoftmax", _WIDE, _of_uniform(lambda x: torch.log_softmax(x, 1)), _SOFTMAX_AIM),
    _row("25_Swish", _WIDE, _of_uniform(lambda x: x * torch.sigmoid(x))),
    _row("26_GELU_", _WIDE, _of_uniform(lambda x: F.gelu(x))),
    _row("27_SELU_", _WIDE, _of_uniform(torch.selu)),
    _row("28_HardSigmoid", _WIDE, _of_uniform(lambda x: F.hardsigmoid(x))),
    _row("29_Softplus", _WIDE, _of_uniform(lambda x: F.softplus(x))),
    _row("30_Softsign", _WIDE, _of_uniform(lambda x: x / (1 + x.abs()))),
    _row("31_ELU", _WIDE, _of_uniform(lambda x: F.elu(x))),
    _row("32_HardTanh", _WIDE, _of_uniform(lambda x: F.hardtanh(x))),
    _row("33_BatchNorm", (64, 64, 512, 512), _batch_norm),
    _row("34_InstanceNorm", _MAPS, _of_uniform(lambda x: F.instance_norm(x)), 0.82),
    _row("35_GroupNorm_", _MAPS, _group_norm, 0.85),
    _row(
        "36_RMSNorm_",
        _MAPS,
        _of_uniform(lambda x: x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt()),
    ),
    _row(
        "37_FrobeniusNorm_",
        _MAPS,
        _whole(lambda x: x / torch.linalg.vector_norm(x)),
        None,
        read_again=1,
    ),
    _row("38_L1Norm_", _LONG, _of_uniform(lambda x: x / x.abs().mean(1, keepdim=True)), _NORM_AIM),
    _row(
        "39_L2Norm_",
        _LONG,
        _of_uniform(lambda x: x / torch.linalg.vector_norm(x, dim=1, keepdim=True)),
        _NORM_AIM,
    ),
    _row("40_LayerNorm", (16, 64, 256, 256), _layer_norm, None),
    _pool(
        "41_Max_Pooling_1D",
        (64, 192, 65536),
        lambda x: F.max_pool1d(x, 8, stride=1, padding=4, dilation=3),
    ),
    _pool(
        "42_Max_Pooling_2D", (32, 64, 512, 512), lambda x: F.max_pool2d(x, 4, stride=1, padding=1)
    ),
    _pool(
        "43_Max_Pooling_3D",
        (16, 32, 128, 128, 128),
        lambda x: F.max_pool3d(x, 3, stride=2, padding=1, dilation=3),
    ),
    _pool(
        "44_Average_Pooling_1D", (64, 128, 65536), lambda x: F.avg_pool1d(x, 8, stride=1, padding=4)
    ),
    _pool("45_Average_Pooling_2D", (16, 64, 2048, 2048), lambda x: F.avg_pool2d(x, 11)),
    _pool(
        "46_Average_Pooling_3D",
        (16, 32, 128, 128, 256),
        lambda x: F.avg_pool3d(x, 3, stride=2, padding=1),
    ),
    _row("47_Sum_reduction_over_a_dimension", _BLOCK, _of_uniform(lambda x: x.sum(1, True))),
    _row("48_Mean_reduction_over_a_dimension", _BLOCK, _of_uniform(lambda x: x.mean(1))),
    _row("49_Max_reduction_over_a_dimension", _BLOCK, _of_uniform(lambda x: x.max(1)[0])),
    _row("51_Argmax_over_a_dimension", _BLOCK, _index_of(lambda x: x.argmax(1))),
    _row("52_Argmin_over_a_dimension", _BLOCK, _index_of(lambda x: x.argmin(1))),
    _row("53_Min_reduction_over_a_dimension", _BLOCK, _of_uniform(lambda x: x.min(1)[0])),
    _row("88_MinGPTNewGelu", (8192, 8192), _of_uniform(_gelu_of_mingpt)),
    _row("89_cumsum", _SQUARE, _of_uniform(lambda x: x.cumsum(1)), _SCAN_AIM),
    _row("90_cumprod", _SQUARE, _of_uniform(lambda x: x.cumprod(1)), _SCAN_AIM),
    _row(
        "91_cumsum_reverse",
        _SQUARE,
        _of_uniform(lambda x: x.flip(1).cumsum(1).flip(1)),
        _SCAN_AIM,
    ),
    _row("92_cumsum_exclusive", _SQUARE, _of_uniform(_exclusive_cumsum), _SCAN_AIM),
    _row("93_masked_cumsum", _SQUARE, _masked_cumsum, _SCAN_AIM),
    _row("94_MSELoss", _SQUARE, _loss(lambda x, y: (x - y).square().mean())),
    _row("95_CrossEntropyLoss", (32768, 4096), _cross_entropy, 0.93),
    _row("96_HuberLoss", _SQUARE, _loss(lambda x, y: F.smooth_l1_loss(x, y))),
    _row("98_KLDivLoss", (16384, 16384), _divergence),
    _row("99_TripletMarginLoss", (32768, 8192), _triplet),
    _row("100_HingeLoss", _SQUARE, _hinge),
)
