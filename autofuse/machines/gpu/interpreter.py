"""Patches Triton's interpreter: fixes its differences from a card, and replaces its slowest loop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from triton.language import bfloat16
from triton.runtime import interpreter

from autofuse.implgraph.ir.dtypes import BY_NAME, numpy_dtype

__all__ = ["mend_interpreter"]


@cache
def mend_interpreter() -> None:
    """Patch the interpreter to convert bfloat16 as a card does, and to combine blocks in log2(size) steps.

    The original interpreter holds bfloat16 as 16-bit integers: it truncates instead of rounding, flushes subnormal
    numbers to 0, and takes integers for the bits of the result. A broadcast value gets the type of its handle, which
    for the result of a comparison is the operands' type. It calls the combining function of ``tl.reduce`` or
    ``tl.associative_scan`` for every element.
    """
    usual = interpreter.InterpreterBuilder.cast_impl

    def cast_impl(builder: Any, source: Any, wanted: Any) -> Any:
        have, want = source.dtype.scalar, wanted.scalar
        if bfloat16 not in (have, want):
            return usual(builder, source, wanted)
        with np.errstate(all="ignore"):
            data = source.data.view(_numpy_type(have)).astype(_numpy_type(want))
        return interpreter.TensorHandle(data.view(interpreter._get_np_dtype(want)), want)

    interpreter.InterpreterBuilder.cast_impl = cast_impl
    interpreter.InterpreterBuilder.create_splat = _spread
    interpreter.ReduceOps.generic_reduce = _reduce
    interpreter.ScanOps.generic_scan = _scan


def _numpy_type(scalar: Any) -> np.dtype[Any]:
    """Return the NumPy type that corresponds to a Triton type."""
    if scalar == bfloat16:
        return numpy_dtype(BY_NAME["bfloat16"])
    return np.dtype(interpreter._get_np_dtype(scalar))


def _spread(builder: Any, block: Any, value: Any) -> Any:
    """Return a block filled with one number."""
    data = np.asarray(value.data)
    return interpreter.TensorHandle(
        np.full(block.shape, data.flat[0], data.dtype), value.dtype.scalar
    )


def _reduce(ops: Any, tensors: Sequence[Any]) -> list[Any]:
    """Halve blocks until one element is left along the axis; all dimensions of a block are powers of two."""
    flat, axis = ops.unravel(tensors, ops.axis)
    data = [np.moveaxis(t.handle.data, axis, 0) for t in flat]
    while len(data[0]) > 1:
        half = len(data[0]) // 2
        data = _combined(ops, [d[:half] for d in data], [d[half:] for d in data], flat)
    data = [d[0] for d in data]
    if ops.keep_dims:
        whole = range(tensors[0].handle.data.ndim) if ops.axis is None else (axis,)
        data = [np.expand_dims(d, tuple(whole)) for d in data]
    return [ops.to_tensor(d, t.dtype) for d, t in zip(data, flat, strict=True)]


def _scan(ops: Any, tensors: Sequence[Any]) -> list[Any]:
    data = [np.moveaxis(t.handle.data, ops.axis, 0) for t in tensors]
    done = _scanned(ops, data, tensors)
    return [
        ops.to_tensor(np.moveaxis(d, 0, ops.axis), t.dtype)
        for d, t in zip(done, tensors, strict=True)
    ]


def _scanned(ops: Any, data: list[Any], tensors: Sequence[Any]) -> list[Any]:
    """Scan recursively: every second result comes from the scan of combined pairs, the others from the one before."""
    if len(data[0]) == 1:
        return data
    even, odd = [d[0::2] for d in data], [d[1::2] for d in data]
    later = _scanned(ops, _combined(ops, even, odd, tensors), tensors)
    earlier = _combined(ops, [np.roll(d, 1, axis=0) for d in later], even, tensors)
    out = []
    for first, a, b in zip(even, earlier, later, strict=True):
        a[0] = first[0]
        out.append(np.stack((a, b), axis=1).reshape(-1, *a.shape[1:]))
    return out


def _combined(ops: Any, left: list[Any], right: list[Any], tensors: Sequence[Any]) -> list[Any]:
    operands = [
        ops.to_tensor(d, t.dtype)
        for part in (left, right)
        for d, t in zip(part, tensors, strict=True)
    ]
    out = ops.combine_fn.fn(*operands)
    out = out if isinstance(out, tuple) else (out,)
    return [np.array(o.handle.data, d.dtype) for o, d in zip(out, left, strict=True)]
