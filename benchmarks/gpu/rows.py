"""Rows of the benchmark: what is computed, on which inputs, how many bytes it has to move, and what it should reach.

The sets are in ``sets/``; :func:`rows` has them all.
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

#: Largest extents of a tiny run: of the first dimension, and of the others, where an odd extent stays odd.
_TINY = (5, 32)

SETS = ("kernelbench", "operators", "sweep", "level2")


class Maker:
    """Makes random inputs on a device, from a seed of its own per row."""

    def __init__(self, device: str, seed: int) -> None:
        self.device = device
        self.generator = torch.Generator(device).manual_seed(seed)

    def normal(self, shape: Shape, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Standard normal numbers."""
        return torch.randn(shape, generator=self.generator, device=self.device, dtype=dtype)

    def uniform(self, shape: Shape, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Numbers from 0 to 1."""
        return torch.rand(shape, generator=self.generator, device=self.device, dtype=dtype)

    def integers(self, below: int, shape: Shape) -> torch.Tensor:
        """Whole numbers (int64) from 0 to ``below - 1``."""
        return torch.randint(below, shape, generator=self.generator, device=self.device)

    def truths(self, shape: Shape) -> torch.Tensor:
        """True and False, equally often."""
        return self.uniform(shape) < 0.5


@dataclass(frozen=True)
class Case:
    """A function and the tensors that it is timed on.

    Attributes:
        function: of the inputs; a tensor, or a tuple of tensors.  Given float64 it computes in float64.
        inputs: parameters among them.
        split: so many inputs, the first ones, and all outputs have parts along dimension 0 that do not depend on each
            other; every part needs the other inputs whole.  0: there are no such parts.
        gradients: the inputs whose gradients a backward row is about.
        observed: what is compared in place of the outputs, as a function of outputs and inputs.
        dys: for a backward row the gradients of the outputs.
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
        shape: of the tensor that the name is about; ``make`` derives the others from it.
        dtype: of the floats.
        make: the case for a maker, a shape and a dtype.
        backward: timed is the backward graph alone.
        aim: fraction of the roof that it should reach; None if none is stated.
        counted: whether it is part of the geometric means.
        read_again: times that the inputs have to be read once more.
        peer: what libraries of kernels call it (``softmax``, ``rms_norm``, ...); empty if they do not have it.
        terms: products that the library sums for an element; errors are in units of the square root of as many
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
        """The case on a device; ``tiny`` cuts the extents to a few dozens."""
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
    """The shape of a tiny run."""
    first, rest = _TINY
    return (min(shape[0], first), *(e if e <= rest else rest + e % 2 for e in shape[1:]))


def wide(x: torch.Tensor) -> torch.Tensor:
    """Float32, as models convert for sums and norms; float64 stays, so that the oracle can use the same function."""
    return x if x.dtype == torch.float64 else x.float()


def elements_at(dim: int) -> Callable[[Tensors, Tensors], Tensors]:
    """Compares indices along a dimension by the elements that they name: of equal ones any is right.

    An index outside of the dimension names NaN.
    """

    def observed(outputs: Tensors, inputs: Tensors) -> Tensors:
        (index,), x = outputs, inputs[0]
        at = index.unsqueeze(dim)
        inside = (at >= 0) & (at < x.shape[dim])
        return (torch.where(inside, x.gather(dim, at.clamp(0, x.shape[dim] - 1)), math.nan),)

    return observed


def compulsory_bytes(row: Row, case: Case, results: Sequence[torch.Tensor]) -> int:
    """Bytes that have to be moved: every input, parameter and gradient of an output once, every result once."""
    read = sum(x.nbytes for x in (*case.inputs, *case.dys))
    return read * (1 + row.read_again) + sum(r.nbytes for r in results)


def forward_aim(length: int, dtype: torch.dtype) -> float | None:
    """Fraction of the roof for a forward pass that reads its rows, of ``length`` elements, once."""
    if length <= 16384:
        return 0.95
    if length <= 32768:
        return 0.93
    if length <= 1 << 20:
        return 0.82 if dtype.itemsize == 4 else 0.75
    return None


def backward_aim(dtype: torch.dtype, norm: bool) -> float:
    """Fraction of the roof for the backward pass of a norm, or of a softmax or cross-entropy."""
    return 0.80 if norm and dtype.itemsize == 2 else 0.90


def rows(sets: Sequence[str] = SETS, patterns: Sequence[str] = ()) -> list[Row]:
    """Rows of some sets in order; with patterns (``fnmatch``, or a part of the name) only those."""
    from sets.kernelbench import KERNELBENCH
    from sets.level2 import LEVEL2
    from sets.operators import OPERATORS
    from sets.sweep import SWEEP

    found = [r for r in (*KERNELBENCH, *OPERATORS, *SWEEP, *LEVEL2) if r.set in sets]
    if not patterns:
        return found
    return [r for r in found if any(p in r.name or fnmatch(r.name, p) for p in patterns)]
