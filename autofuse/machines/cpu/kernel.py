"""A compiled library of C++ loops as a Python function on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.cpu.backend import entry_point
from autofuse.codegen.backends.cpu.sizes import unsolved
from autofuse.implgraph.ir.dtypes import numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph, Tensor
from autofuse.machines.twin.oracle.data import buffer_extent, poisoned, strided_copy
from autofuse.machines.twin.oracle.oracle import shape_of
from autofuse.machines.twin.run.arguments import checked_inputs, named_inputs
from autofuse.machines.twin.run.values import misfit
from autofuse.results import Run

__all__ = ["CpuKernel"]

Array: TypeAlias = npt.NDArray[Any]


class CpuKernel:
    """Loops on this machine, with OpenMP's number of threads (``OMP_NUM_THREADS``).

    Args:
        path: the library from ``compile_library``.
        graph: the graph that it was generated from.

    Raises:
        AutofuseError: AF5003, the library cannot be loaded.

    Several threads may use the object at once. Arrays of in-out parameters belong to the caller: concurrent calls must
    not share one.
    """

    runs_on, key_count, flushes = "the CPU", 0, False

    def __init__(self, path: Path, graph: FusionGraph) -> None:
        self.path, self.graph = path, graph
        try:
            self._entry = getattr(ctypes.CDLL(str(path)), entry_point(graph))
        except (OSError, AttributeError) as e:
            raise AutofuseError.of("AF5003", f"the library cannot be loaded: {e}") from e
        self._entry.restype = None

    def choose(self, sizes: Mapping[str, int]) -> None:
        """Do nothing: one form takes all sizes."""

    def __call__(self, *arrays: Any, symbols: Mapping[str, int] | None = None, **named: Any) -> Any:
        """Run the loops on inputs in the order of the graph, or by name.

        Args:
            *arrays: an array per input, with exactly its dtype and a shape that fits the graph; a number for a
                scalar.  Inputs that an output overwrites are changed in place.
            symbols: sizes that the shapes do not determine, in elements.
            **named: inputs by name.

        Returns:
            The output array, or a tuple of them if there are several, in the order of the graph.

        Raises:
            AutofuseError: AF5007, the arguments do not fit.
        """
        return self.run(named_inputs(self.graph, arrays, named), symbols=symbols).result

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        symbols: Mapping[str, int] | None = None,
        key: int | None = None,
        poison: int | None = None,
    ) -> Run:
        """Run the kernel on inputs by name.

        Args:
            inputs: an array per input, a number for a scalar.
            symbols: sizes that the shapes do not determine.
            key: None.
            poison: byte that fills outputs before the run; None: they stay uninitialised.

        Raises:
            AutofuseError: AF5007, the arguments do not fit.
            TypeError: a size is not an integer, or ``inputs`` is not by name.
        """
        if key is not None:
            raise misfit("CPU loops have no tiling keys")
        arrays, sizes = checked_inputs(self.graph, inputs, symbols or {})
        given = {n: self._laid_out(self.graph.tensors[n], a, sizes) for n, a in arrays.items()}
        pointers = [_start(self.graph.tensors[n], a, sizes) for n, a in given.items()]
        held: list[Array] = list(given.values())
        tensors = [self.graph.tensors[n] for n in given]
        outputs: dict[str, Array] = {}
        for o in self.graph.outputs:
            tensor = self.graph.tensors[o.tensor]
            if o.inout is not None:
                outputs[o.name] = arrays[o.inout]
                continue
            shape, dtype = shape_of(tensor.shape, sizes), numpy_dtype(tensor.dtype)
            made = np.empty(shape, dtype) if poison is None else poisoned(shape, dtype, poison)
            outputs[o.name] = made
            tensors.append(tensor)
            held.append(made)
            pointers.append(made.ctypes.data)
        shapes = [_shape_array(t, sizes) for t in tensors]
        self._call(pointers, [*shapes, [sizes[s] for s in unsolved(self.graph)]])
        for o in self.graph.outputs:
            if o.inout is not None and given[o.inout] is not inputs[o.inout]:
                inputs[o.inout][...] = given[o.inout].reshape(inputs[o.inout].shape)
                outputs[o.name] = inputs[o.inout]
        called = {s.label: sizes[s.name] for s in self.graph.symbols}
        return Run(outputs, called, key=-1, block_dim=0, workspace=0)

    def _call(self, pointers: Sequence[int], shapes: Sequence[Sequence[int]]) -> None:
        data = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
        if not self.graph.symbols:
            self._entry(data)
            return
        rows = [(ctypes.c_int64 * len(s))(*s) for s in shapes]
        table = (ctypes.c_void_p * max(len(rows), 1))(*(ctypes.addressof(r) for r in rows))
        self._entry(data, table)

    def _laid_out(self, tensor: Tensor, array: Array, sizes: Mapping[str, int]) -> Array:
        """Return the array with the graph's memory layout; a copy if its layout differs."""
        if tensor.strides is None and tensor.offset is None:
            return np.ascontiguousarray(array) if array.ndim else array
        return strided_copy(array, tensor, sizes)


def _start(tensor: Tensor, array: Array, sizes: Mapping[str, int]) -> int:
    """Return the address from which the graph counts the elements of a tensor."""
    offset = 0 if tensor.offset is None else tensor.offset.evaluate(sizes)
    return int(array.ctypes.data) - offset * array.itemsize


def _shape_array(tensor: Tensor, sizes: Mapping[str, int]) -> list[int]:
    """Return the argument of a dynamic entry for a tensor: 0, its shape, its strides in elements."""
    _, strides, _ = buffer_extent(tensor, sizes)
    return [0, *shape_of(tensor.shape, sizes), *strides]
