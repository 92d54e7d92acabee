"""Activations that were found in their primitives, against the reference of the primitives."""

from __future__ import annotations

import json
import math

import draws
import numpy as np
import pytest

from autofuse import api
from autofuse.machines.twin.verify.verify import verify_kernel

pytestmark = pytest.mark.twin

GELU = [
    ("e", "Mul", "a", math.sqrt(0.5)),
    ("f", "Erf", "e"),
    ("g", "Add", "f", 1.0),
    ("h", "Mul", "a", 0.5),
    ("b", "Mul", "h", "g"),
]
SLOPE = [
    ("i", "Mul", "g", 0.5),
    ("j", "Mul", "a", "a"),
    ("k", "Mul", "j", -0.5),
    ("l", "Exp", "k"),
    ("m", "Mul", "l", 1 / math.sqrt(2 * math.pi)),
    ("n", "Mul", "a", "m"),
    ("d", "Add", "i", "n"),
]
TANH = [
    ("e", "Mul", "a", "a"),
    ("f", "Mul", "e", "a"),
    ("g", "Mul", "f", 0.044715),
    ("h", "Add", "a", "g"),
    ("i", "Mul", "h", math.sqrt(2 / math.pi)),
    ("j", "Tanh", "i"),
    ("k", "Add", "j", 1.0),
    ("l", "Mul", "a", 0.5),
    ("b", "Mul", "l", "k"),
]
SOFTPLUS = [
    ("e", "Exp", "a"),
    ("f", "Log1p", "e"),
    ("g", "Greater", "a", 20.0),
    ("b", "Select", "g", "a", "f"),
]
MISH = [*SOFTPLUS, ("t", "Tanh", "b"), ("d", "Mul", "a", "t")]
LOG_SIGMOID = [
    ("e", "Abs", "a"),
    ("f", "Neg", "e"),
    ("g", "Exp", "f"),
    ("h", "Log1p", "g"),
    ("i", "Minimum", "a", 0.0),
    ("b", "Sub", "i", "h"),
]


def build(nodes, outputs, dtype, shape=("s0", 40)):
    """``a`` is the input in float32; outputs are rounded to the input's type."""
    lines = [("a", "Cast", "x"), *nodes, *((f"y_{o}", "Cast", o) for o in outputs)]
    graph = {
        "schema": "autofuse.graph/1",
        "name": "k",
        "symbols": {"s0": {"min": 0, "max": 64}} if "s0" in shape else {},
        "inputs": [{"name": "x", "dtype": dtype, "shape": list(shape)}],
        "nodes": [
            {
                "name": f"n_{name}",
                "op": op,
                "inputs": [{"const": o} if isinstance(o, float) else o for o in operands],
                "outputs": [name],
                "attrs": {"dtype": "float32" if name == "a" else dtype} if op == "Cast" else {},
            }
            for name, op, *operands in lines
        ],
        "outputs": [f"y_{o}" for o in outputs],
    }
    return api.build(json.dumps(graph))


@pytest.mark.parametrize(
    ("nodes", "outputs", "dtype"),
    [
        ([*GELU, *SLOPE], "bd", "float16"),
        ([*GELU, *SLOPE], "bd", "bfloat16"),
        (TANH, "b", "float16"),
        (TANH, "b", "bfloat16"),
        (SOFTPLUS, "b", "float32"),
        (MISH, "d", "float16"),
        (MISH, "d", "float32"),
        (MISH, "bd", "bfloat16"),
        (LOG_SIGMOID, "b", "float32"),
        (LOG_SIGMOID, "b", "float16"),
    ],
)
def test_primitives_and_activation_agree(nodes, outputs, dtype):
    built = build(nodes, outputs, dtype)
    sizes = [{"s0": s} for s in (0, 1, 53)]
    report = verify_kernel(
        built.files,
        built.graph,
        bindings=sizes,
        seed=draws.seed(),
        special=True,
    )
    assert report.ok, report


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_all_numbers_of_16_bits(dtype):
    """Gelu and its slope: at the zero of the slope, in the tails, at infinities."""
    built = build([*GELU, *SLOPE], "bd", dtype, (1 << 16,))
    kernel = api.load(built)
    bits = np.arange(1 << 16, dtype=np.uint16)
    x = bits.view(np.float16) if dtype == "float16" else (bits.astype(np.uint32) << 16).view("f4")
    with np.errstate(all="ignore"):
        given = x if dtype == "float16" else x.astype(built_type(built))
        y, slope = (np.asarray(r).astype(np.float64) for r in kernel(given))
        wide = x.astype(np.float64)
        near = np.clip(wide, -40, 40)
        below = np.array([0.5 * math.erfc(-v * math.sqrt(0.5)) for v in near])
        density = np.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)
    digits, normal = (11, 2.0**-14) if dtype == "float16" else (8, 2.0**-126)
    for have, want in (
        (y, np.where(wide == -np.inf, -0.0, wide) * below),
        (slope, below + near * density),
    ):
        number = np.isfinite(want)
        np.testing.assert_array_equal(np.isnan(have), np.isnan(want))
        _, exponent = np.frexp(np.maximum(np.abs(want[number]), normal))
        ulps = np.abs(have - want)[number] / np.ldexp(1.0, exponent - digits)
        assert ulps.max() <= 0.65


def built_type(built):
    from autofuse.implgraph.ir.dtypes import BY_NAME, numpy_dtype

    return numpy_dtype(BY_NAME[built.graph.tensors["x"].dtype.name])


@pytest.mark.parametrize("to", ["int8", "uint8"])
def test_limits_of_integers(to):
    """Rounded and limited to what the integer holds: the conversion does the second."""
    low, high = (-128.0, 127.0) if to == "int8" else (0.0, 255.0)
    graph = {
        "schema": "autofuse.graph/1",
        "name": "k",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [4096]}],
        "nodes": [
            {"name": "r", "op": "Round", "inputs": ["x"], "outputs": ["t"]},
            {"name": "a", "op": "Maximum", "inputs": ["t", {"const": low}], "outputs": ["u"]},
            {"name": "b", "op": "Minimum", "inputs": ["u", {"const": high}], "outputs": ["v"]},
            {"name": "c", "op": "Cast", "inputs": ["v"], "outputs": ["y"], "attrs": {"dtype": to}},
        ],
        "outputs": ["y"],
    }
    built = api.build(json.dumps(graph))
    assert "Maxs" not in "".join(built.files.values())
    x = (draws.rng().normal(size=4096) * 200).astype(np.float32)
    x[:8] = [np.inf, -np.inf, np.nan, 3e38, -3e38, 65520.0, -65520.0, 255.5]
    want = np.nan_to_num(np.clip(np.rint(x), low, high)).astype(to)
    np.testing.assert_array_equal(api.load(built)(x), want)
