"""Triton kernels: a generated module called with tensors, on an NVIDIA card or in Triton's interpreter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch.lower import Lowered, TensorInput
from autofuse.clients.torch.region import Place, Region
from autofuse.implgraph.expr.expression import const
from autofuse.machines.gpu.importing import imported
from autofuse.machines.gpu.loading import module_file
from autofuse.targets import GpuTarget, from_driver, load_gpu

__all__ = ["TritonKernel", "TritonRegion", "card", "check_triton", "with_gaps"]

#: Word in the name of a card -> its target.
_CARDS = {"H100": "nvidia-h100", "H200": "nvidia-h200"}


def card(device: torch.device) -> GpuTarget:
    """Return the target of a CUDA device: from the target file of such a card, else from the driver's figures."""
    return _card(torch.cuda.current_device() if device.index is None else device.index)


@functools.lru_cache(maxsize=64)
def _card(index: int) -> GpuTarget:
    properties = torch.cuda.get_device_properties(index)
    for word, name in _CARDS.items():
        target = load_gpu(name)
        # Cards with the same name differ: the PCIe board has fewer multiprocessors.
        same = properties.multi_processor_count == target.multiprocessors
        if word in properties.name and same:
            return target
    return from_driver(properties)


def check_triton(target: str, device: torch.device) -> None:
    """Check that Triton can compute tensors of a device here.

    Raises:
        AutofuseError: AF5001 Triton is missing, or the tensors are on ``cpu`` and Triton does not interpret.
    """
    if find_spec("triton") is None:
        raise AutofuseError.of(
            "AF5001",
            f"kernels for {target} need the package triton",
            hint="pip install 'ascend-autofuse[gpu]'",
        )
    from triton import knobs

    if device.type == "cpu" and not knobs.runtime.interpret:
        raise AutofuseError.of(
            "AF5001",
            f"kernels for {target} take CPU tensors only in Triton's interpreter, which is off",
            hint="set TRITON_INTERPRET=1 before Python starts, or move the tensors to cuda",
        )
    if device.type == "cpu":
        from autofuse.machines.gpu.interpreter import mend_interpreter

        mend_interpreter()


def with_gaps(lowered: Lowered) -> Lowered:
    """Return the graph with the strides of inputs that have gaps, such as half of a tensor, to read them in place.

    Inputs of unknown sizes, and those whose elements share memory, stay contiguous.
    """
    tensors = dict(lowered.graph.tensors)
    for name, how in zip(lowered.graph.inputs, lowered.inputs, strict=True):
        strides = _gaps(how) if isinstance(how, TensorInput) else None
        if strides is not None:
            tensors[name] = replace(tensors[name], strides=tuple(const(s) for s in strides))
    return replace(lowered, graph=replace(lowered.graph, tensors=tensors))


def _gaps(how: TensorInput) -> tuple[int, ...] | None:
    """Return the strides of a tensor with gaps between its elements; None for other tensors."""
    t = how.node.meta["val"] if how.perm is None else how.node.meta["val"].permute(how.perm)
    if not all(isinstance(n, int) and n > 1 for n in (*t.shape, *t.stride()[:-1])):
        return None
    least = 1
    for size, stride in zip(reversed(t.shape), reversed(t.stride()), strict=True):
        if not isinstance(stride, int) or stride < least:
            return None
        least = stride * size
    return None if t.is_contiguous() else tuple(t.stride())


class TritonKernel:
    """The function of a generated module.

    Args:
        result: the library's result for the graph.

    Attributes:
        call: takes the inputs of the graph as contiguous tensors, in order, and returns the output or a tuple of them.
        keywords: keyword arguments of ``call``: symbols that no shape contains, and ``device`` without inputs.

    Raises:
        AutofuseError: AF5009 the cache folder cannot be used.
    """

    def __init__(self, result: api.SplitResult) -> None:
        from autofuse.codegen.backends.triton.backend import entry_point

        file = module_file(result.graph)
        module = imported(result.files[file], file)
        self.call: Callable[..., Any] = getattr(module, entry_point(result.graph))
        _mark_first_launches(module, self.call)
        parameters = inspect.signature(self.call).parameters.values()
        self.keywords = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


class _NotCompiledError(Exception):
    """An error of Triton while compiling, loading or first launching a kernel."""


class _FirstLaunch:
    """Wrapper of a kernel that marks every error of a launch as such.

    Triton compiles during the launch.  Its passes raise RuntimeError, its assembler fails as a process, and a card
    refuses kernels that need too many resources: by type, such an exception looks like one of the device.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        launch = self._kernel[grid]

        def first(*args: Any, **options: Any) -> Any:
            try:
                return launch(*args, **options)
            except MemoryError:
                raise
            except Exception as e:
                raise _NotCompiledError from e

        return first


def _mark_first_launches(module: Any, entry: Callable[..., Any]) -> None:
    """Mark errors of a module's launches through Triton; later launches go directly to the driver."""
    from triton.runtime.jit import KernelInterface

    for name in entry.__code__.co_names:
        found = getattr(module, name, None)
        if isinstance(found, KernelInterface):
            setattr(module, name, _FirstLaunch(found))
        elif isinstance(getattr(found, "kernel", None), KernelInterface):
            found.kernel = _FirstLaunch(found.kernel)  # type: ignore[union-attr]


class TritonRegion(Region):
    """A region whose kernel takes tensors and allocates its results, on the current stream.

    Args:
        lowered: this and the following as for :class:`autofuse.clients.torch.region.Region`.
        arguments: nodes whose results are the region's arguments.
        places: places of its symbols.
        eager: the same nodes, run by PyTorch.
        refused: called when the kernel refuses a call.
        kernel: the kernel.
    """

    def __init__(
        self,
        lowered: Lowered,
        arguments: Sequence[torch.fx.Node],
        places: Sequence[Place],
        eager: torch.fx.GraphModule,
        refused: Callable[[str, str], None],
        kernel: TritonKernel,
    ) -> None:
        super().__init__(lowered, arguments, places, eager, refused)
        self._call = kernel.call
        if self._device.type == "cuda" and torch.cuda.device_count() > 1:
            self._call = _on(self._device, kernel.call)
        names = [name for name in kernel.keywords if name != "device"]
        self._keywords = [(name, self._symbols.index(name)) for name in names]
        self._where = {"device": self._device} if "device" in kernel.keywords else {}
        tensors = [lowered.graph.tensors[x] for x in lowered.graph.inputs]
        #: Strides of inputs with gaps, None for contiguous ones.
        self._strides: list[tuple[int, ...] | None] = [
            None if t.strides is None else tuple(int(s.value) for s in t.strides) for t in tensors
        ]
        plain = [(i, None) for i in range(len(arguments))]
        #: The arguments are exactly the inputs of the graph and need no preparation.
        self._is_direct = self._inputs == plain and not kernel.keywords and not self._indices
        #: Triton failed to compile it, and would retry at every call.
        self._is_given_up = False

    def __call__(self, *args: Any) -> Any:
        """Return the results needed outside the region: a tensor, or a tuple of several."""
        named: dict[str, Any] = {}
        if self._is_given_up:
            return self._eager[0](*args)
        if self._is_direct:
            # PyTorch's own kernels may return other strides than the traced ones.
            given = [_laid(t, how) for t, how in zip(args, self._strides, strict=True)]
        else:
            sizes = self._sizes(args)
            if self._indices and self._is_outside(args, sizes):
                return self._eager[0](*args)
            given = [
                _laid(t, h) for t, h in zip(self._tensors(args, sizes), self._strides, strict=True)
            ]
            named = {name: sizes[at] for name, at in self._keywords} | self._where
        try:
            found = self._call(*given, **named)
        except Exception as e:
            refused = _refusal(e)
            if refused is None:
                raise
            self._is_given_up = isinstance(e, _NotCompiledError)
            return self._by_pytorch(*refused, args)
        if self._plain:
            return found
        return self._results(found if isinstance(found, tuple) else (found,))


def _laid(t: torch.Tensor, strides: tuple[int, ...] | None) -> torch.Tensor:
    """Return the tensor with the strides that a kernel expects; contiguous if None."""
    if strides is None:
        return t if t.is_contiguous() else t.contiguous()
    if t.stride() == strides:
        return t
    return torch.empty_strided(t.shape, strides, dtype=t.dtype, device=t.device).copy_(t)


def _refusal(e: Exception) -> tuple[str, str] | None:
    """Return why the function fails, and the underlying error code of autofuse; None for other errors."""
    from triton.errors import TritonError

    cause = e.__cause__ if isinstance(e, _NotCompiledError) else e
    if cause is not e or isinstance(e, TritonError):
        return f"is rejected by Triton: {type(cause).__name__}: {cause}", "AF5002"
    return (f"rejects a call: {e}", "") if isinstance(e, ValueError) else None


def _on(device: torch.device, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that launches on a given device, whatever the current one."""

    def on_device(*tensors: torch.Tensor, **sizes: int) -> Any:
        with torch.cuda.device(device):
            return call(*tensors, **sizes)

    return on_device
