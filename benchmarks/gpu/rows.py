"""Rows of the benchmark: function, inputs, compulsory bytes, and target performance.

The sets are in ``sets/``; :func:`rows` returns them all.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import Any

import torch

Shape = tuple[int, ...]
Tensors = tuple[torch.Tensor, ...]
Function = Callable[..., Any]

#: Maximum extents in a tiny run: of the first dimension, and of the others, where an odd extent stays odd.
_TINY = (5, 32)

SETS = ("kernelbench", "operators", "sweep", "level2")


class Maker:
    """Makes random inputs on a device, with a separate seed per row."""

    def __init__(self, device: str, seed: int) -> None:
        self.device = device
        self.generator = torch.Generator(device).manual_seed(seed)

    def normal(self, shape: Shape, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return standard normal numbers."""
        return torch.randn(shape, generator=self.generator, device=self.device, dtype=dtype)

    def uniform(self, shape: Shape, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return uniform numbers from 0 to 1."""
        return torch.rand(shape, generator=self.generator, device=self.device, dtype=dtype)

    def integers(self, below: int, shape: Shape) -> torch.Tensor:
        """Return integers (int64) from 0 to ``below - 1``."""
        return torch.randint(below, shape, generator=self.generator, device=self.device)

    def truths(self, shape: Shape) -> torch.Tensor:
        """Return True and False with equal probability."""
        return self.uniform(shape) < 0.5


@dataclass(frozen=True)
class Case:
    """A function and the tensors it is timed on.

    Attributes:
        function: function of the inputs that returns a tensor or a tuple; it computes in float64 if given float64.
        inputs: the inputs, including parameters.
        split: number of leading inputs that, like all outputs, split into independent parts along dimension 0; every
            part needs the other inputs whole.  0: no such split.
        gradients: inputs whose gradients a backward row computes.
        observed: function of outputs and inputs whose value is compared in place of the outputs.
        dys: gradients of the outputs, for a backward row.
    """

    function: Function
    inputs: Tensors
    split: int = 0
    gradients: Sequence[int] = ()
    observed: Callable[[Tensors, Tensors], Tensors] | None = None
    dys: Tensors = ()


@dataclass(frozen=True)
class Row:
    """A line of the tables.

    Attributes:
        name: unique in its set.
        set: one of ``SETS``.
        shape: shape of the tensor in the name; ``make`` derives the others from it.
        dtype: dtype of the floats.
        make: returns the case for a maker, a shape and a dtype.
        backward: True to time only the backward graph.
        aim: target fraction of the roof; None if there is none.
        counted: True if it is in the geometric means.
        read_again: number of additional reads of the inputs.
        peer: name in kernel libraries (``softmax``, ``rms_norm``, ...); empty if they lack it.
        terms: number of products that the library sums per element; errors are in units of the square root of as many
            roundings.
        sweep: the operator, if the row belongs to a sweep over lengths; ``shape[1]`` is the length.
    """

    name: str
    set: str
    shape: Shape
    make: Callable[[Maker, Shape, torch.dtype], Case]
    dtype: torch.dtype = torch.float32
    backward: bool = False
    aim: float | None = None
    counted: bool = True
    read_again: int = 0
    peer: str = ""
    terms: int = 1
    sweep: str = ""

    def case(self, device: str, seed: int, tiny: bool) -> Case:
        """Return the case on a device; ``tiny`` reduces the extents to a few dozen."""
        maker = Maker(device, seed ^ zlib.crc32(self.name.encode()))
        made = self.make(maker, shrunk(self.shape) if tiny else self.shape, self.dtype)
        if not self.backward:
            return made
        with torch.no_grad():
            outputs = tensors(made.function(*made.inputs))
        return replace(made, dys=tuple(maker.normal(tuple(o.shape), o.dtype) for o in outputs))


def tensors(found: Any) -> Tensors:
    """Return the results of a function as a tuple."""
    return (found,) if isinstance(found, torch.Tensor) else tuple(found)


def shrunk(shape: Shape) -> Shape:
    """Return the shape for a tiny run."""
    first, rest = _TINY
    return (min(shape[0], first), *(e if e <= rest else rest + e % 2 for e in shape[1:]))


def wide(x: torch.Tensor) -> torch.Tensor:
    """Convert to float32, as models do for sums and norms; keep float64 for the oracle."""
    return x if x.dtype == torch.float64 else x.float()


def elements_at(dim: int) -> Callable[[Tensors, Tensors], Tensors]:
    """Return a function that compares indices by the elements they select, because ties allow any index.

    An out-of-bounds index selects NaN.
    """

    def observed(outputs: Tensors, inputs: Tensors) -> Tensors:
        (index,), x = outputs, inputs[0]
        at = index.unsqueeze(dim)
        inside = (at >= 0) & (at < x.shape[dim])
        return (torch.where(inside, x.gather(dim, at.clamp(0, x.shape[dim] - 1)), math.nan),)

    return observed


def compulsory_bytes(row: Row, case: Case, results: Sequence[torch.Tensor]) -> int:
    """Return the compulsory bytes: every input, parameter and output gradient once, every result once."""
    read = sum(x.nbytes for x in (*case.inputs, *case.dys))
    return read * (1 + row.read_again) + sum(r.nbytes for r in results)


def forward_aim(length: int, dtype: torch.dtype) -> float | None:
    """Return the target fraction of the roof for a forward pass that reads its rows of ``length`` elements once."""
    if length <= 16384:
        return 0.95
    if length <= 32768:
        return 0.93
    if length <= 1 << 20:
        return 0.82 if dtype.itemsize == 4 else 0.75
    return None


def backward_aim(dtype: torch.dtype, norm: bool) -> float:
    """Return the target fraction of the roof for the backward pass of a norm, or of a softmax or cross-entropy."""
    return 0.80 if norm and dtype.itemsize == 2 else 0.90


def rows(
    sets: Sequence[str] = SETS, patterns: Sequence[str] = (), draw: tuple[int, ...] = (0, 0)
) -> list[Row]:
    """Return the rows of some sets in order.

    Args:
        sets: names of sets; ``random`` is drawn.
        patterns: for ``fnmatch``, or parts of names: only matching rows; empty: all.
        draw: seed and number of random rows, and perhaps the power of 2 of their most elements.
    """
    from sets.kernelbench import KERNELBENCH
    from sets.level2 import LEVEL2
    from sets.operators import OPERATORS
    from sets.random import drawn
    from sets.sweep import SWEEP

    found = [r for r in (*KERNELBENCH, *OPERATORS, *SWEEP, *LEVEL2, *drawn(*draw)) if r.set in sets]
    if not patterns:
        return found
    return [r for r in found if any(p in r.name or fnmatch(r.name, p) for p in patterns)]
