"""Sizes and elements of the inputs of a model that runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from autofuse.base.arguments import integer
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.onnx.models.choices import largest_number
from autofuse.clients.onnx.models.reference import MAX_BYTES
from autofuse.frontends.onnx.pieces import ModelPieces
from autofuse.frontends.onnx.regions import evaluated
from autofuse.frontends.onnx.values import Foreign, Traced
from autofuse.implgraph.ir.dtypes import numpy_dtype

__all__ = ["given_sizes", "random_array"]

_ANY_SIZE = 1 << 62


def given_sizes(pieces: ModelPieces, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes by symbol.

    Args:
        pieces: the model.
        sizes: sizes by the model's names of dimensions, or by symbol.

    Raises:
        AutofuseError: AF5007, a name is not a symbol, or a size is negative.
        TypeError: a size is not an integer.
    """
    by_name = {d: s for s, d in pieces.dims.items()}
    out = {}
    for name, size in sizes.items():
        ident = by_name.get(name, name)
        size = integer(f"the size of {name}", size, -_ANY_SIZE, _ANY_SIZE)
        if ident not in pieces.symbols:
            known = ", ".join(by_name) or "none"
            text = f"{name} is not a symbol of {pieces.label}"
            raise AutofuseError.of("AF5007", text, hint=f"its symbols are: {known}")
        if size < 0:
            raise AutofuseError.of("AF5007", f"the size {size} of {name} is negative")
        out[ident] = size
    return out


def random_array(
    pieces: ModelPieces, name: str, sizes: Mapping[str, int], rng: np.random.Generator
) -> Any:
    """Draw elements for an input: normally distributed floats, integers 0 or 1, or indices into a table.

    Args:
        pieces: the model.
        name: the input.
        sizes: sizes of the symbols.
        rng: the random generator.

    Raises:
        AutofuseError: AF5007, nothing can be drawn for it; AF1109, it is too large.
    """
    v = pieces.values[name]
    if name in pieces.shapeless or (isinstance(v, Foreign) and v.type_name != "float64"):
        what = v.type_name if isinstance(v, Foreign) else "unknown"
        text = f"{name} cannot be random: it has type {what}, or no shape"
        hint = f"give its elements with --input {name}=FILE"
        raise AutofuseError.of("AF5007", text, hint=hint)
    shape = evaluated(v.shape, sizes)
    dtype = numpy_dtype(v.dtype) if isinstance(v, Traced) else np.dtype(np.float64)
    if math.prod(shape) * dtype.itemsize > MAX_BYTES:
        text = f"the input {name} of shape {list(shape)} has more than {MAX_BYTES >> 30} GiB"
        raise AutofuseError.of("AF1109", text, hint="reduce the sizes of its dimensions")
    if dtype.kind in "biu":
        most = 1
        if dtype.kind != "b":
            most = min(largest_number(pieces, name, sizes), np.iinfo(dtype).max)
        return rng.integers(0, most, shape, endpoint=True).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
