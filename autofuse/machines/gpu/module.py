"""A generated module of Triton kernels, loaded in this process, as a function on NumPy arrays."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.codegen.backends.triton.call import Call
from autofuse.implgraph.ir.dtypes import BY_NAME, numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph, GraphOutput
from autofuse.machines.gpu.importing import imported
from autofuse.machines.twin.oracle.data import buffer_extent, strided_buffer
from autofuse.machines.twin.oracle.oracle import shape_of
from autofuse.machines.twin.run.arguments import checked_inputs
from autofuse.machines.twin.run.values import misfit
from autofuse.results import Run

__all__ = ["TritonModule"]

Array: TypeAlias = npt.NDArray[Any]

#: Most traceback lines of a finding.
_TRACE_LINES = 12


class TritonModule:
    """A module of Triton kernels.

    Args:
        text: text of the module.
        graph: the graph that it was generated from.
        entry: name of its function.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        spread: put gaps between the elements of inputs without strides in the graph.
        call: parameters of the function; None: the inputs of the graph.

    Attributes:
        graph: as given.
        device: PyTorch's device.
        function: takes a tensor per input, and the result of :meth:`keywords`.

    Raises:
        AutofuseError: AF5001, there is no such card, or it cannot be used; AF5002, the module cannot be imported.
    """

    #: No tiling keys: its function chooses among its kernels.
    key_count = 0

    def __init__(
        self,
        text: str,
        graph: FusionGraph,
        entry: str,
        device: str,
        *,
        spread: bool = False,
        call: Call | None = None,
    ) -> None:
        self.graph, self._spread = graph, spread
        self.device = torch.device(device)
        if self.device.type == "cuda":
            self._check_card()
        try:
            made = getattr(imported(text, f"{graph.name}_triton.py"), entry)
        except Exception as e:
            raise _raised(e, "AF5002", "importing the module") from e
        own = set() if call is None else {a.name for a in call.arguments}
        keywords = inspect.signature(made).parameters.values()
        self._keywords = [
            p.name for p in keywords if p.kind is p.KEYWORD_ONLY and p.name not in own
        ]
        self.function = made if call is None else _of_inputs(made, call)

    def with_function(self, function: Callable[..., Any]) -> TritonModule:
        """Return this module with another function, which takes only the inputs of the graph."""
        made = copy(self)
        made.function, made._keywords = function, []
        return made

    def _check_card(self) -> None:
        """Raise AF5001 if there is no such card, or it cannot allocate memory."""
        if (self.device.index or 0) >= torch.cuda.device_count():
            raise AutofuseError.of("AF5001", f"there is no device {self.device} here")
        try:
            torch.empty(1, device=self.device)
        except RuntimeError as e:
            text = f"device {self.device} cannot be used: {_first_line(e)}"
            raise AutofuseError.of("AF5001", text) from e

    def choose(self, sizes: Mapping[str, int]) -> None:
        """Do nothing: its function chooses during a call."""

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        symbols: Mapping[str, int] | None = None,
        key: int | None = None,
        poison: int | None = None,
    ) -> Run:
        """Call the function once.

        Args:
            inputs: an array per input, a number for a scalar. They are copied; changes by the kernels are copied back
                into writable ones.
            symbols: sizes that the shapes do not determine.
            key: None.
            poison: byte that fills memory allocated by the function; None: it stays uninitialised.

        Raises:
            AutofuseError: AF5007, the arguments do not fit the graph; AF5003, the function raises, or returns results
                that do not match the graph.
        """
        if key is not None:
            raise misfit("a module of Triton kernels has no tiling keys")
        arrays, sizes = checked_inputs(self.graph, inputs, symbols or {})
        try:
            given = {n: self._tensor(n, a, sizes) for n, a in arrays.items()}
            with self._current(), nullcontext() if poison is None else _Poisoned(poison):
                made = self.function(*given.values(), **self.keywords(sizes))
            outputs = dict(self._outputs(made, given, sizes))
            for name, tensor in given.items():
                _read_back(arrays[name], tensor)
        except AutofuseError:
            raise
        except torch.OutOfMemoryError as e:
            raise self._no_memory(e) from e
        except Exception as e:
            self._end_if_broken()
            raise _raised(e, "AF5003", "a call of the module") from e
        outputs |= {o.name: inputs[o.inout] for o in self.graph.outputs if o.inout is not None}
        called = {s.label: sizes[s.name] for s in self.graph.symbols}
        return Run(outputs, called, key=-1, block_dim=0, workspace=0)

    def prepared(self, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Callable[[], object]:
        """Return a call of the function on tensors already on the device, for timing.

        Every call overwrites its in-out tensors again.

        Args:
            inputs: as for :meth:`run`.
            sizes: sizes of all symbols.

        Raises:
            AutofuseError: AF5007, the arguments do not fit the graph; AF5003, the device has no memory for them.
        """
        arrays, sizes = checked_inputs(self.graph, inputs, sizes)
        try:
            given = [self._tensor(n, a, sizes) for n, a in arrays.items()]
        except torch.OutOfMemoryError as e:
            raise self._no_memory(e) from e
        keywords = self.keywords(sizes)
        return lambda: self.function(*given, **keywords)

    def _no_memory(self, e: Exception) -> AutofuseError:
        hint = "use smaller sizes, or another device"
        text = f"{self.device} is out of memory for this call: {_first_line(e)}"
        return AutofuseError.of("AF5003", text, hint=hint)

    def _current(self) -> AbstractContextManager[object]:
        """Make the tensors' card current, since Triton launches on the current card."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def _end_if_broken(self) -> None:
        """End this process if a kernel broke the context of its card, which then fails all further calls.

        The parent process reports this with the text on standard error.
        """
        if self.device.type == "cuda":
            try:
                torch.cuda.synchronize(self.device)
            except RuntimeError:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)

    def _tensor(self, name: str, array: Array, sizes: Mapping[str, int]) -> torch.Tensor:
        """Return a copy of an input on the device, with the graph's layout."""
        tensor = self.graph.tensors[name]
        if tensor.strides is None and tensor.offset is None:
            dense = _to_torch(array.copy()).to(self.device)
            return _with_gaps(dense) if self._spread else dense
        offset, strides, _ = buffer_extent(tensor, sizes)
        buffer = _to_torch(strided_buffer(array, tensor, sizes)[0]).to(self.device)
        return buffer.as_strided(array.shape, strides, offset)

    def keywords(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes that are not a dimension of an input, by the function's keyword parameters."""
        shown = {str(e) for n in self.graph.inputs for e in self.graph.tensors[n].shape}
        free = [sizes[s.name] for s in self.graph.symbols if s.name not in shown]
        return dict(zip(self._keywords, free, strict=False))

    def _outputs(
        self, made: Any, given: Mapping[str, torch.Tensor], sizes: Mapping[str, int]
    ) -> Sequence[tuple[str, Array]]:
        results = (made,) if isinstance(made, torch.Tensor) else tuple(made)
        if len(results) != len(self.graph.outputs):
            raise _wrong(
                f"{counted(len(results), 'result')} for {counted(len(self.graph.outputs), 'output')}"
            )
        return [
            (o.name, self._output(o, result, given, sizes))
            for o, result in zip(self.graph.outputs, results, strict=True)
        ]

    def _output(
        self,
        o: GraphOutput,
        result: torch.Tensor,
        given: Mapping[str, torch.Tensor],
        sizes: Mapping[str, int],
    ) -> Array:
        if o.inout is not None and result is not given[o.inout]:
            raise _wrong(f"for output {o.name} a tensor other than {o.inout}, which it overwrites")
        tensor = self.graph.tensors[o.tensor]
        array = _to_numpy(result)
        want = numpy_dtype(tensor.dtype), shape_of(tensor.shape, sizes)
        if (array.dtype, array.shape) != want:
            is_text, want_text = (f"{d}{list(s)}" for d, s in ((array.dtype, array.shape), want))
            raise _wrong(f"{is_text} for output {o.name}, which is {want_text}")
        return array


def _of_inputs(function: Callable[..., Any], call: Call) -> Callable[..., Any]:
    """Wrap a function with these parameters as a function of the graph's inputs, in order."""
    order = [a.input for a in call.arguments if a.input]

    def called(*tensors: torch.Tensor, **sizes: int) -> Any:
        args, keywords = call.bound(dict(zip(order, tensors, strict=True)), torch)
        return function(*args, **keywords, **sizes)

    return called


def _with_gaps(dense: torch.Tensor) -> torch.Tensor:
    """Return a copy of ``dense`` that occupies every other element of a new buffer."""
    if dense.ndim == 0:
        return dense
    buffer = dense.new_zeros((*dense.shape, 2))
    buffer[..., 0] = dense
    return buffer[..., 0]


class _Poisoned(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Fills the memory of new tensors with a byte, so that unwritten elements are found."""

    _FRESH = frozenset(
        getattr(torch.ops.aten, name)
        for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
    )

    def __init__(self, pattern: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._pattern = pattern

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.overloadpacket in self._FRESH:
            made.untyped_storage().fill_(self._pattern)
        return made


def _to_torch(array: Array) -> torch.Tensor:
    """Return a tensor that shares an array's memory; bfloat16 is reinterpreted, since PyTorch does not know NumPy's."""
    if array.dtype.kind == "V":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _to_numpy(tensor: torch.Tensor) -> Array:
    """Return a copy of a tensor as an array."""
    held = tensor.detach().cpu().contiguous()
    if held.dtype is torch.bfloat16:
        return np.array(held.view(torch.int16).numpy().view(numpy_dtype(BY_NAME["bfloat16"])))
    return np.array(held.numpy())


def _read_back(array: Array, tensor: torch.Tensor) -> None:
    """Copy the kernel's changes of an input back into the array."""
    now = _to_numpy(tensor)
    if array.flags.writeable and now.tobytes() != array.tobytes():
        array[...] = now


def _wrong(what: str) -> AutofuseError:
    return AutofuseError.of("AF5003", f"the module returns {what}")


def _raised(e: Exception, code: str, doing: str) -> AutofuseError:
    """Return the error for an exception of generated code, with the end of its traceback."""
    notes = tuple(traceback.format_exc().splitlines()[-_TRACE_LINES:])
    text = f"{doing} raises {type(e).__name__}: {_first_line(e)}"
    return AutofuseError.of(code, text, notes=notes)


def _first_line(e: Exception) -> str:
    return (str(e).splitlines() or [""])[0]
