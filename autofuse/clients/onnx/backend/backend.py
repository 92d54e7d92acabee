"""The backend class: turns a model into a function on NumPy arrays."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.clients.onnx import models
from autofuse.clients.onnx.models.calls import kernel_calls
from autofuse.frontends.onnx.reader import OnnxGraph, convert
from autofuse.machines.twin.run.values import plain_array

if TYPE_CHECKING:
    from autofuse.machines.cpu.kernel import CpuKernel
    from autofuse.machines.gpu.kernel import TritonKernel
    from autofuse.machines.npu.kernel import NpuKernel
    from autofuse.machines.twin.run.kernel import TwinKernel

__all__ = ["MAX_KERNELS", "AutofuseBackend", "PreparedModel"]

#: Maximum number of cached kernels per model; an evicted kernel is rebuilt when its shapes recur.
MAX_KERNELS = 64

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A kernel for given input shapes, and given elements of the bound inputs."""

    found: OnnxGraph
    kernel: TwinKernel | NpuKernel | TritonKernel | CpuKernel | None

    def __call__(self, given: Mapping[str, Array]) -> tuple[Array, ...]:
        if self.kernel is None:
            return tuple(np.array(o) for o in self.found.outputs)
        arrays = {k: given[name] for k, name in self.found.inputs.items()}
        run = self.kernel.run({**arrays, **self.found.constants})
        return tuple(run.outputs[o] if isinstance(o, str) else o for o in self.found.outputs)


class _Several:
    """The kernels of a model's regions, and the runner of the rest."""

    def __init__(self, model: onnx.ModelProto, target: str, check: str) -> None:
        self.built = models.build(model, target=target)
        self._call = kernel_calls(self.built, check=check)

    def __call__(self, given: Mapping[str, Any]) -> tuple[Any, ...]:
        missing = [n for n in self.built.pieces.inputs if n not in given]
        if missing:
            raise AutofuseError.of("AF5007", f"input {missing[0]} is missing")
        done = models.run(self.built, given, call=self._call)
        states = {r["state"] for r in (*done.regions, *done.fallbacks)}
        if states & {"differs", "failed"}:
            raise AutofuseError(done.diagnostics)
        return tuple(done.outputs.values())


class PreparedModel(BackendRep):
    """A model that runs on the CPU twin, or on the machine of its target.

    The first run with new input shapes builds a kernel.  If the shape of a result depends on the elements of an operand
    (the shape for Reshape, the axes of a reduction), the kernel is built for the elements of that run.  The most
    recently used kernels are cached, at most :data:`MAX_KERNELS`.  Several threads may run the model concurrently.
    A model that cannot be one kernel is partitioned: each fusible region gets a kernel, ``onnx.reference`` runs the
    rest, every run compares the kernels with ``onnx.reference``, and a difference is an error.

    Args:
        model: the model; it must not be changed afterwards.
        target: the chip, the GPU or the CPU.
        check: as for ``autofuse.load``.
        partition: True to partition the model; None: only if necessary.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        *,
        target: str = api.DEFAULT_TARGET,
        check: str = "fast",
        partition: bool | None = None,
    ) -> None:
        self.model = model
        self.target = target
        self.check = check
        self.partition = partition
        held = {t.name for t in model.graph.initializer}
        self.input_names = [v.name for v in model.graph.input if v.name not in held]
        self._kernels: OrderedDict[Any, _Compiled] = OrderedDict()
        self._lock = threading.Lock()
        self._several: _Several | None = None

    @property
    def kernel_count(self) -> int:
        """Number of cached kernels; a model whose outputs are all known has none."""
        with self._lock:
            several = 0 if self._several is None else len(self._several.built.kernels)
            return several + sum(c.kernel is not None for c in self._kernels.values())

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Array, ...]:
        """Run the model and return its outputs.

        Args:
            inputs: arrays in the order of the model's inputs, or by name.
            **kwargs: unused; required by the interface.

        Raises:
            AutofuseError: no part of the model can be fused, or the rest does not run; with ``partition`` False, the
                model cannot be one kernel; the inputs do not match it.
        """
        given = self._by_name(inputs)
        if self.partition or self._several is not None:
            return self.several()(given)
        try:
            made = self.compiled(given)
        except AutofuseError:
            if self.partition is False or not models.is_partitioned(self.model):
                raise
            return self.several()(given)
        return made(given)

    def several(self) -> _Several:
        """Return the kernels of the regions; they take all sizes."""
        with self._lock:
            if self._several is None:
                self._several = _Several(self.model, self.target, self.check)
            return self._several

    def compiled(self, given: Mapping[str, Any]) -> _Compiled:
        """Return the kernel for these inputs."""
        arrays = {n: a for n, a in given.items() if isinstance(a, np.ndarray)}
        shapes = {n: a.shape for n, a in arrays.items()}
        with self._lock:
            for key, held in self._kernels.items():
                if key == _key(shapes, arrays, held.found.bound):
                    self._kernels.move_to_end(key)
                    return held
        # Two threads may build the same kernel; the compiler runs only once, because its results are cached on disk.
        found = convert(self.model, shapes=shapes, values=arrays)
        kernel = None
        if found.graph is not None:
            kernel = api.load(api.build(found.graph, target=self.target), check=self.check)
        made = _Compiled(found, kernel)
        with self._lock:
            self._kernels[_key(shapes, arrays, found.bound)] = made
            while len(self._kernels) > MAX_KERNELS:
                self._kernels.popitem(last=False)
        return made

    def _by_name(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            return {n: _array(n, v) for n, v in inputs.items()}
        given = inputs if isinstance(inputs, list | tuple) else [inputs]
        if len(given) > len(self.input_names):
            text = (
                f"the model takes {counted(len(self.input_names), 'input')}, "
                f"{counted(len(given), 'was', 'were')} given"
            )
            raise AutofuseError.of("AF5007", text)
        return {n: _array(n, v) for n, v in zip(self.input_names, given, strict=False)}


def _array(name: str, value: Any) -> Any:
    """Return a NumPy scalar as a 0-d array; other non-arrays (a sequence, None) unchanged."""
    if isinstance(value, np.ndarray):
        return plain_array(name, value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _element_type(name: str, dtype: np.dtype[Any]) -> int:
    """Return ONNX's number for a dtype.

    Raises:
        AutofuseError: AF5007, ONNX has no such dtype.
    """
    try:
        return helper.np_dtype_to_tensor_dtype(dtype)
    except ValueError as e:
        raise AutofuseError.of(
            "AF5007", f"input {name} is {dtype}, which ONNX does not have"
        ) from e


def _key(
    shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, Array], bound: Sequence[str]
) -> Any:
    return (
        tuple(sorted(shapes.items())),
        tuple((n, arrays[n].dtype.str, arrays[n].tobytes()) for n in sorted(bound)),
    )


class AutofuseBackend(Backend):
    """The interface of ``onnx.backend.base.Backend``; every device is the CPU twin."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return True for ``CPU``."""
        return device.partition(":")[0] == "CPU"

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Return the model as a function; its runs build kernels for the shapes of the inputs.

        Args:
            model: the model.
            device: ``CPU``.
            **kwargs: ``target``, ``check`` and ``partition``, see :class:`PreparedModel`.
        """
        chosen = {k: kwargs[k] for k in ("target", "check", "partition") if k in kwargs}
        return PreparedModel(model, **chosen)

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Array, ...]:
        """Prepare and run once.

        Args:
            model: the model.
            inputs: as for :meth:`PreparedModel.run`.
            device: ``CPU``.
            **kwargs: as for :meth:`prepare`.

        Raises:
            AutofuseError: as for :meth:`PreparedModel.run`.
        """
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Array, ...]:
        """Run one node on arrays.

        Args:
            node: the node.
            inputs: arrays in the order of the node's present inputs, or by name.
            device: ``CPU``.
            outputs_info: unused; required by the interface.
            **kwargs: ``opset_version`` selects the operator set, by default the newest of the ``onnx`` package; others
                as for :meth:`prepare`.

        Raises:
            AutofuseError: as for :meth:`PreparedModel.run`.
        """
        names = [n for n in dict.fromkeys(node.input) if n]
        given = dict(zip(names, inputs, strict=True)) if not isinstance(inputs, Mapping) else inputs
        arrays = {n: np.asarray(_array(n, given[n])) for n in names}
        values = [
            helper.make_tensor_value_info(n, _element_type(n, a.dtype), a.shape)
            for n, a in arrays.items()
        ]
        results = [onnx.ValueInfoProto(name=o) for o in node.output if o]
        graph = helper.make_graph([node], "node", values, results)
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        return cls.prepare(model, device, **kwargs).run(arrays)
