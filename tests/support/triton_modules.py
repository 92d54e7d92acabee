"""Modules of Triton kernels, written by hand as a backend would write them, with the graphs that they compute."""

from typing import Any

#: Softmax over rows of 96 plus a bias; ``rows`` is known at run time.
SOFTMAX = """
import torch
import triton
import triton.language as tl


@triton.jit
def _softmax(x, bias, y, columns: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < columns
    value = tl.load(x + row * columns + at, inside, other=0.0).to(tl.float32)
    value = (value + tl.load(bias + at, inside, other=0.0).to(tl.float32)).to(x.dtype.element_ty)
    value = tl.where(inside, value.to(tl.float32), float("-inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * columns + at, power / tl.sum(power, 0), inside)


def soft(x, bias):
    if x.shape[1] != 96 or bias.shape != (96,):
        raise ValueError("rows have 96 elements")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.shape[0]:
        _softmax[(x.shape[0],)](x, bias, y, 96, 128)
    return y
"""

#: Every kind of parameter: strided, a scalar, written in place, bool and integer; and a symbol that is in no input.
MIXED = """
import torch
import triton
import triton.language as tl


@triton.jit
def _scaled(x, stride, scale, total, z, count, columns: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < count
    row, column = at // columns, at % columns
    value = tl.load(x + row * stride + column, inside, other=0.0) * tl.load(scale)
    tl.store(total + at, tl.load(total + at, inside, other=0.0) + value, inside)
    tl.store(z + at, value > 0.0, inside)


@triton.jit
def _repeated(n, w, count, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    tl.store(w + at, tl.load(n + at % 3, at < count, other=0), at < count)


def mixed(x, scale, total, n, *, copies):
    rows, columns = x.shape
    z = torch.empty((rows, columns), dtype=torch.bool, device=x.device)
    w = torch.empty((copies, 3), dtype=n.dtype, device=x.device)
    if z.numel():
        grid = (triton.cdiv(z.numel(), 64),)
        _scaled[grid](x, x.stride(0), scale, total, z, z.numel(), columns, 64)
    if w.numel():
        _repeated[(triton.cdiv(w.numel(), 64),)](n, w, w.numel(), 64)
    return total, z, w
"""

#: The graph of :data:`MIXED`.
MIXED_GRAPH: dict[str, Any] = {
    "schema": "autofuse.graph/1",
    "name": "mixed",
    "symbols": {"rows": {"min": 0, "max": 5000}, "copies": {"min": 0, "max": 5000}},
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": ["rows", 33], "strides": [40, 1], "offset": 5},
        {"name": "scale", "dtype": "float32", "scalar": True},
        {"name": "total", "dtype": "float32", "shape": ["rows", 33]},
        {"name": "n", "dtype": "int32", "shape": [3]},
    ],
    "nodes": [
        {"name": "m", "op": "Mul", "inputs": ["x", "scale"], "outputs": ["v"]},
        {"name": "a", "op": "Add", "inputs": ["total", "v"], "outputs": ["t"]},
        {"name": "g", "op": "Greater", "inputs": ["v", {"const": 0.0}], "outputs": ["z"]},
        {
            "name": "b",
            "op": "Broadcast",
            "inputs": ["n"],
            "outputs": ["w"],
            "attrs": {"shape": ["copies", 3]},
        },
    ],
    "outputs": [{"tensor": "t", "inout": "total"}, "z", "w"],
}


#: To bfloat16, and back to the dtype of the input.
CASTS = """
import torch
import triton
import triton.language as tl


@triton.jit
def _casts(x, narrow, back, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + at, at < count, other=0).to(tl.bfloat16)
    tl.store(narrow + at, value, at < count)
    tl.store(back + at, value.to(x.dtype.element_ty), at < count)


def casts(x):
    narrow, back = torch.empty_like(x, dtype=torch.bfloat16), torch.empty_like(x)
    _casts[(triton.cdiv(x.numel(), 128),)](x, narrow, back, x.numel(), 128)
    return narrow, back
"""


def cast_graph(dtype: str) -> dict[str, Any]:
    """The graph of :data:`CASTS`."""
    to = {"dtype": "bfloat16"}, {"dtype": dtype}
    return {
        "schema": "autofuse.graph/1",
        "name": "casts",
        "inputs": [{"name": "x", "dtype": dtype, "shape": [1009]}],
        "nodes": [
            {"name": "a", "op": "Cast", "inputs": ["x"], "outputs": ["narrow"], "attrs": to[0]},
            {"name": "b", "op": "Cast", "inputs": ["narrow"], "outputs": ["back"], "attrs": to[1]},
        ],
        "outputs": ["narrow", "back"],
    }


def softmax_graph(dtype: str = "float16") -> dict[str, Any]:
    """The graph of :data:`SOFTMAX`."""
    return {
        "schema": "autofuse.graph/1",
        "name": "soft",
        "symbols": {"rows": {"min": 0, "max": 100000}},
        "inputs": [
            {"name": "x", "dtype": dtype, "shape": ["rows", 96]},
            {"name": "bias", "dtype": dtype, "shape": [96]},
        ],
        "nodes": [
            {"name": "a", "op": "Add", "inputs": ["x", "bias"], "outputs": ["t"]},
            {
                "name": "s",
                "op": "Softmax",
                "inputs": ["t"],
                "outputs": ["y"],
                "attrs": {"axis": -1},
            },
        ],
        "outputs": ["y"],
    }
