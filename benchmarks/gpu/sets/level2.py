"""KernelBench level 2 tasks with matrix products: a library product, followed by vector work.

KernelBench (https://github.com/ScalingIntelligence/KernelBench, MIT) defines every task as a module; names, sizes and
input distributions come from there, the functions are written for this benchmark.  All inputs are float32; parameters
are drawn like those of PyTorch's modules, batch norm uses batch statistics, and there is no dropout.  The library
computes products in float32 throughout, so they take the same time for all competitors.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from rows import Case, Maker, Row, Shape

_Tail = Callable[..., torch.Tensor]
_Parameters = Callable[[int], tuple[Shape, ...]]

#: Rows, input features, output features: of most tasks, and of the tall ones.
_USUAL = (1024, 8192, 8192)
_TALL = (16384, 4096, 4096)


def _drawn(maker: Maker, shape: Shape, inputs: int, dtype: torch.dtype) -> torch.Tensor:
    """Draw a weight or bias as ``torch.nn.Linear`` does for this number of inputs."""
    return maker.uniform(shape, dtype).mul_(2).sub_(1).mul_(inputs**-0.5)


def _task(name: str, sizes: Shape, tail: _Tail, parameters: _Parameters = lambda n: ()) -> Row:
    """Return a task ``tail(x @ weight.T + bias, *parameters)``; ``parameters`` gives shapes for ``n`` features."""

    def make(maker: Maker, shape: Shape, dtype: torch.dtype) -> Case:
        rows, inputs, outputs = shape
        tensors = (
            maker.uniform((rows, inputs), dtype),
            _drawn(maker, (outputs, inputs), inputs, dtype),
            _drawn(maker, (outputs,), inputs, dtype),
            *(maker.normal(p, dtype) for p in parameters(outputs)),
        )
        return Case(lambda x, w, b, *more: tail(F.linear(x, w, b), *more), tensors)

    return Row(name, "level2", sizes, make, terms=sizes[1])


def _two_layers(maker: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    rows, inputs, hidden, outputs = shape
    tensors = (
        maker.uniform((rows, inputs), dtype),
        _drawn(maker, (hidden, inputs), inputs, dtype),
        _drawn(maker, (hidden,), inputs, dtype),
        _drawn(maker, (outputs, hidden), hidden, dtype),
        _drawn(maker, (outputs,), hidden, dtype),
    )

    def function(x: torch.Tensor, *layers: torch.Tensor) -> torch.Tensor:
        inner = torch.sigmoid(F.linear(x, layers[0], layers[1]))
        return torch.logsumexp(F.linear(inner, layers[2], layers[3]), 1)

    return Case(function, tensors)


def _batch_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, None, None, weight, bias, True)


def _group_norm(
    x: torch.Tensor, features: int, weight: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """Return the group norm in groups of ``features`` features."""
    return F.group_norm(x, max(1, x.shape[1] // features), weight, bias)


def _log_sum_exp(x: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(x, 1, keepdim=True)


def _vectors(count: int) -> _Parameters:
    return lambda n: ((n,),) * count


def _norm_and(*more: int) -> _Parameters:
    """Return the shapes of a norm's weight and bias, and another parameter."""
    return lambda n: ((n,), (n,), more)


LEVEL2: tuple[Row, ...] = (
    _task("9_Matmul_Subtract_Multiply_ReLU", _USUAL, lambda x: torch.relu((x - 2.0) * 1.5)),
    _task("12_Gemm_Multiply_LeakyReLU", _USUAL, lambda x: F.leaky_relu(x * 2.0, 0.1)),
    _task("29_Matmul_Mish_Mish", _USUAL, lambda x: F.mish(F.mish(x))),
    _task(
        "30_Gemm_GroupNorm_Hardtanh",
        _USUAL,
        lambda x, w, b: F.hardtanh(_group_norm(x, 512, w, b), -2.0, 2.0),
        _vectors(2),
    ),
    _task(
        "33_Gemm_Scale_BatchNorm",
        _USUAL,
        lambda x, scale, w, b: _batch_norm(x * scale, w, b),
        _vectors(3),
    ),
    _task(
        "37_Matmul_Swish_Sum_GroupNorm",
        (32768, 1024, 4096),
        lambda x, bias, w, b: _group_norm(torch.sigmoid(x) * x + bias, 64, w, b),
        _vectors(3),
    ),
    _task(
        "39_Gemm_Scale_BatchNorm",
        _TALL,
        lambda x, scale, w, b: _batch_norm(x * scale, w, b),
        _vectors(3),
    ),
    _task("40_Matmul_Scaling_ResidualAdd", _TALL, lambda x: x * 0.5 + x),
    _task(
        "41_Gemm_BatchNorm_GELU_ReLU",
        _TALL,
        lambda x, w, b: torch.relu(F.gelu(_batch_norm(x, w, b))),
        _vectors(2),
    ),
    Row("45_Gemm_Sigmoid_LogSumExp", "level2", (16384, 2048, 4096, 1024), _two_layers, terms=4096),
    _task(
        "53_Gemm_Scaling_Hardtanh_GELU",
        (2048, 8192, 8192),
        lambda x: F.gelu(F.hardtanh(x * 0.5, -2.0, 2.0)),
    ),
    _task(
        "62_Matmul_GroupNorm_LeakyReLU_Sum",
        _USUAL,
        lambda x, w, b: F.leaky_relu(_group_norm(x, 16, w, b), 0.01) * 2.0,
        _vectors(2),
    ),
    _task("63_Gemm_ReLU_Divide", _USUAL, lambda x: torch.relu(x) / 2.0),
    _task(
        "64_Gemm_LogSumExp_LeakyReLU_LeakyReLU_GELU_GELU",
        _USUAL,
        lambda x: F.gelu(F.gelu(F.leaky_relu(F.leaky_relu(_log_sum_exp(x), 0.01), 0.01))),
    ),
    _task("70_Gemm_Sigmoid_Scaling_ResidualAdd", _USUAL, lambda x: torch.sigmoid(x) * 2.0 + x),
    _task(
        "75_Gemm_GroupNorm_Min_BiasAdd",
        _USUAL,
        lambda x, w, b, more: _group_norm(x, 16, w, b).amin(1, keepdim=True) + more,
        lambda n: ((n,), (n,), (1, n, 1, 1)),
    ),
    _task("76_Gemm_Add_ReLU", _USUAL, lambda x, more: torch.relu(x + more), _vectors(1)),
    _task(
        "81_Gemm_Swish_Divide_Clamp_Tanh_Clamp",
        _USUAL,
        lambda x: torch.tanh((x * torch.sigmoid(x) / 2.0).clamp(-1.0, 1.0)).clamp(-1.0, 1.0),
    ),
    _task(
        "84_Gemm_BatchNorm_Scaling_Softmax",
        _USUAL,
        lambda x, w, b, scale: torch.softmax(scale * _batch_norm(x, w, b), 1),
        _norm_and(1),
    ),
    _task("86_Matmul_Divide_GELU", _USUAL, lambda x: F.gelu(x / 10.0)),
    _task(
        "88_Gemm_GroupNorm_Swish_Multiply_Swish",
        _USUAL,
        lambda x, w, b, scale: F.silu(F.silu(_group_norm(x, 32, w, b)) * scale),
        _vectors(3),
    ),
    _task(
        "94_Gemm_BiasAdd_Hardtanh_Mish_GroupNorm",
        _USUAL,
        lambda x, bias, w, b: _group_norm(F.mish(F.hardtanh(x + bias)), 32, w, b),
        _vectors(3),
    ),
    _task(
        "95_Matmul_Add_Swish_Tanh_GELU_Hardtanh",
        _USUAL,
        lambda x, more: F.hardtanh(F.gelu(torch.tanh(F.silu(x + more)))),
        _vectors(1),
    ),
    _task(
        "97_Matmul_BatchNorm_BiasAdd_Divide_Swish",
        _USUAL,
        lambda x, w, b, bias: F.silu((_batch_norm(x, w, b) + bias) / 1.0),
        _norm_and(1),
    ),
    _task("99_Matmul_GELU_Softmax", _USUAL, lambda x: torch.softmax(F.gelu(x), 1)),
)
