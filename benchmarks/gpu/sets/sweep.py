"""Row operators for lengths of 64 to 2^20, with 2^26 elements in total: rows that fit a block, and rows that do not."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from rows import Case, Maker, Row, Shape, backward_aim, forward_aim

ELEMENTS = 1 << 26

DTYPE_NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}

_LENGTHS = {
    torch.float32: (64, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 1 << 20),
    torch.float16: (64, 1024, 4096, 16384, 32768, 65536, 131072, 262144, 1 << 20),
    torch.bfloat16: (64, 1024, 4096, 16384, 32768),
}
_BACKWARD_LENGTHS = (1024, 8192, 65536)


def _softmax(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    inputs = (make.normal(shape, dtype),)
    return Case(lambda x: torch.softmax(x, -1), inputs, split=1, gradients=(0,))


def _log_softmax(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    inputs = (make.normal(shape, dtype),)
    return Case(lambda x: torch.log_softmax(x, -1), inputs, split=1, gradients=(0,))


def layer_norm(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    """Return a layer norm over the last dimension, with weight and bias."""
    weight, bias = (make.normal(shape[-1:], dtype) for _ in range(2))
    inputs = (make.normal(shape, dtype), weight, bias)
    function = lambda x, w, b: F.layer_norm(x, w.shape, w, b)  # noqa: E731
    return Case(function, inputs, split=1, gradients=(0, 1, 2))


def rms_norm(make: Maker, shape: Shape, dtype: torch.dtype) -> Case:
    """Return an RMS norm over the last dimension, with a weight."""
    inputs = (make.normal(shape, dtype), make.normal(shape[-1:], dtype))
    function = lambda x, w: F.rms_norm(x, w.shape, w, 1e-5)  # noqa: E731
    return Case(function, inputs, split=1, gradients=(0, 1))


_OPERATORS: dict[str, Callable[[Maker, Shape, torch.dtype], Case]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
}


def _row(operator: str, dtype: torch.dtype, length: int, backward: bool) -> Row:
    shape = (ELEMENTS // length, length)
    return Row(
        f"{operator} {'bwd ' if backward else ''}{shape[0]}x{length} {DTYPE_NAMES[dtype]}",
        "sweep",
        shape,
        _OPERATORS[operator],
        dtype=dtype,
        backward=backward,
        aim=backward_aim(dtype, operator.endswith("norm"))
        if backward
        else forward_aim(length, dtype),
        peer="" if operator == "log_softmax" else operator,
        sweep=operator,
    )


SWEEP: tuple[Row, ...] = tuple(
    _row(operator, dtype, length, False)
    for dtype, lengths in _LENGTHS.items()
    for operator in _OPERATORS
    if (operator, dtype) != ("log_softmax", torch.bfloat16)
    for length in lengths
) + tuple(
    _row(operator, torch.float32, length, True)
    for operator in _OPERATORS
    for length in _BACKWARD_LENGTHS
)
