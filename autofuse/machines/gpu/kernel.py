"""A module of Triton kernels as a Python function on NumPy arrays; it runs in a worker process."""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.base import cache
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.dtypes import numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.gpu.loading import checked_device, flushes, load_here, module_file
from autofuse.machines.twin.oracle.oracle import shape_of
from autofuse.machines.twin.run.arguments import checked_inputs, named_inputs
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import pack, unpack
from autofuse.machines.words import CPU, memory_limit
from autofuse.results import Run

if TYPE_CHECKING:
    from autofuse.machines.gpu.module import TritonModule

__all__ = ["TritonKernel", "call_job"]

Array: TypeAlias = npt.NDArray[Any]

_JOB = "autofuse.machines.gpu.kernel:call_job"
#: Modules that a worker keeps loaded, and calls after which the worker is replaced.
_MODULES, _CALLS_PER_WORKER = 32, 10_000


class TritonKernel:
    """A module of Triton kernels in a worker process, one per device; several threads may call it.

    A call may take ``AUTOFUSE_VERIFY_TIMEOUT`` seconds, and on a CPU ``AUTOFUSE_VERIFY_MEMORY_MB`` MiB.
    """

    key_count = 0

    def __init__(self, files: Mapping[str, str], graph: FusionGraph, device: str = CPU) -> None:
        self.graph, self.device = graph, checked_device(device)
        file = module_file(graph)
        self._module = pack(({file: files[file]}, graph, {"device": device}))

    @property
    def flushes(self) -> bool:
        """True where arithmetic takes subnormal float32 numbers for zeros."""
        return flushes(self.device)

    @property
    def runs_on(self) -> str:
        """Description of the interpreter, or the card."""
        return "Triton's interpreter" if self.device == CPU else self.device

    def __call__(self, *arrays: Any, symbols: Mapping[str, int] | None = None, **named: Any) -> Any:
        """Run the kernels on inputs in the order of the graph, or by name.

        Args:
            *arrays: an array per input, with exactly its dtype and a shape that fits the graph; a number for a
                scalar.  Inputs that an output overwrites are changed in place.
            symbols: sizes that the shapes do not determine, in elements.
            **named: inputs by name.

        Returns:
            The output array, or a tuple of them if there are several, in the order of the graph.

        Raises:
            AutofuseError: as :meth:`run`.
        """
        given = named_inputs(self.graph, arrays, named)
        return self.run(given, symbols=symbols).result

    def run(self, inputs: Mapping[str, Any], *, symbols: Mapping[str, int] | None = None) -> Run:
        """Run the kernel on inputs by name.

        Raises:
            AutofuseError: AF5007 the arguments do not fit; AF5001 there is no such card; AF5002 the module cannot be
                imported; AF5003 a kernel or its worker failed.
            TypeError: a size is not an integer, or ``inputs`` is not by name.
        """
        arrays, sizes = checked_inputs(self.graph, inputs, symbols or {})
        with cache.scratch() as folder:
            for k, array in enumerate(arrays.values()):
                array.tofile(folder / f"input{k}")
            job = {"module": self._module, "folder": str(folder), "sizes": sizes}
            outcome = _workers(self.device).run(job)
            if not outcome.ok:
                raise AutofuseError(outcome.diagnostics)
            found = _read(
                self.graph, (o.tensor for o in self.graph.outputs), sizes, folder, "output"
            )
        outputs: dict[str, Array] = {}
        for o, array in zip(self.graph.outputs, found, strict=True):
            outputs[o.name] = array if o.inout is None else inputs[o.inout]
            if o.inout is not None:
                arrays[o.inout][...] = array
        called = {s.label: sizes[s.name] for s in self.graph.symbols}
        return Run(outputs, called, key=-1, block_dim=0, workspace=0)


def call_job(job: Mapping[str, Any]) -> None:
    """Call the kernel once, in a worker.

    Args:
        job: ``module`` (packed: the file of the module, the graph, the device), ``sizes`` by symbol, ``folder``: has a
            file with the elements of each input, and receives one per output.
    """
    module, folder = _loaded(job["module"]), Path(job["folder"])
    graph = module.graph
    arrays = _read(graph, graph.inputs, job["sizes"], folder, "input")
    inputs = dict(zip(graph.inputs, arrays, strict=True))
    outputs = module.run(inputs, symbols=job["sizes"]).outputs
    for k, array in enumerate(outputs.values()):
        array.tofile(folder / f"output{k}")


@lru_cache
def _workers(device: str) -> WorkerPool:
    """Return the workers of a device; concurrent calls get one each."""
    pool = WorkerPool(_JOB, memory_mb=memory_limit(device), jobs_per_worker=_CALLS_PER_WORKER)
    atexit.register(pool.close)
    return pool


@lru_cache(maxsize=_MODULES)
def _loaded(payload: str) -> TritonModule:
    files, graph, options = unpack(payload)
    return load_here(files, graph, **options)


def _read(
    graph: FusionGraph, tensors: Iterable[str], sizes: Mapping[str, int], folder: Path, kind: str
) -> list[Array]:
    """Read the elements of tensors, each from a file."""
    found = []
    for k, name in enumerate(tensors):
        tensor = graph.tensors[name]
        flat = np.fromfile(folder / f"{kind}{k}", numpy_dtype(tensor.dtype))
        found.append(flat.reshape(shape_of(tensor.shape, sizes)))
    return found
