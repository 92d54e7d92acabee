"""Machines that run kernels, selected by backend and device name.

A machine is a folder beside this file whose module ``machine`` has an object ``MACHINE``, and a line in
:data:`MACHINES`. Code that loads, verifies or times kernels gets its machine from :func:`machine_for`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.timing import Timer
from autofuse.machines.twin.oracle.sizes import shapes_for
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import (
    VerifyReport,
    unpack,
    verify_in_subprocess,
    verify_made,
)
from autofuse.machines.words import CPU, memory_limit
from autofuse.results import Run
from autofuse.targets import Target

__all__ = [
    "MACHINES",
    "Kernel",
    "Machine",
    "backend_of",
    "machine_for",
    "machine_of",
    "names_in",
    "refuse_others",
    "verify",
    "verify_job",
]

#: Folders of machines, the most specific ones first.
MACHINES = ("gpu", "cpu", "npu", "witness", "twin")

_JOB = "autofuse.machines.machine:verify_job"


class Kernel(Protocol):
    """A loaded kernel, called with NumPy arrays."""

    graph: FusionGraph

    @property
    def runs_on(self) -> str:
        """Description of the machine."""

    @property
    def key_count(self) -> int:
        """Number of tiling keys; 0 if there is no choice."""

    @property
    def flushes(self) -> bool:
        """True if subnormal results become 0."""

    def __call__(self, *arrays: Any, symbols: Mapping[str, int] | None = None, **named: Any) -> Any:
        """Run the kernel, and return its output, or a tuple of them."""

    def run(self, inputs: Mapping[str, Any], *, symbols: Mapping[str, int] | None = None) -> Run:
        """Run the kernel on arrays by name."""


class Machine(Protocol):
    """A kind of device that runs the kernels of one backend; subclasses override the defaults.

    Attributes:
        backend: the backend whose kernels it runs.
        options: those of ``check``, ``check_seed``, ``key``, ``trace``, ``html`` and ``opt`` that it supports.
        keys: tiling keys that a verification runs besides the host's choice; None for all.
    """

    backend: str
    options: frozenset[str] = frozenset()
    keys: Sequence[int] | None = None

    def wrote(self, files: Mapping[str, str], graph: FusionGraph) -> bool:
        """Return True if these files are a kernel of its backend."""
        return True

    def takes(self, device: str) -> bool:
        """Return True if the name is one of its devices, or an invalid one that it must refuse."""
        return True

    def needs(self, device: str, target: Target | None = None) -> None:
        """Raise AF5001 or AF5007 if kernels, optionally of a target, cannot be compiled or verified on a device."""

    def most_elements(self, device: str) -> int | None:
        """Return the elements of the largest tensor that it runs in reasonable time; None for no limit of its own."""
        return None

    def load(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, **options: Any
    ) -> Kernel:
        """Compile a kernel if necessary, and load it; ``options``: of :attr:`options`."""

    def open(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, **options: Any
    ) -> Any:
        """Load a kernel in this process, which must be a worker: the kernel may crash, or break the device."""
        return self.load(files, graph, device, **options)

    def verify_here(
        self,
        files: Mapping[str, str],
        graph: FusionGraph,
        device: str,
        *,
        count: int = 6,
        seed: int = 0,
        opt: str | None = None,
        **options: Any,
    ) -> VerifyReport:
        """Compare a kernel with NumPy in this process, which must be a worker.

        Args:
            files: path inside the output folder -> text.
            graph: the graph of the kernel.
            device: the device.
            count: number of sizes to try if none are given.
            seed: of sizes and data.
            opt: optimisation level, ``-O0`` to ``-O3``.
            **options: ``bindings``, sizes to try; ``special``, mix infinities, NaN and subnormal numbers into the
                data; ``given``, arrays for inputs that are not random; and options of the machine.
        """
        self.needs(device)
        most = self.most_elements(device)
        if options.get("bindings") is None and most is not None:
            options["bindings"] = shapes_for(graph, count, seed, max_elements=most)

        def make() -> Any:
            return self.open(files, graph, device, opt=opt)

        return verify_made(make, count=count, seed=seed, keys=self.keys, **options)

    def timer(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, timeout_s: float
    ) -> Timer:
        """Load a kernel for timing in this process, which must be a worker.

        Args:
            files: path inside the output folder -> text.
            graph: the graph of the kernel.
            device: the device.
            timeout_s: seconds that one launch may take, where a launch can hang.

        Raises:
            AutofuseError: AF5007, the device has no timer; else as :meth:`load`.
        """
        raise AutofuseError.of("AF5007", f"{self.label(device)} has no timer for kernels")

    def label(self, device: str) -> str:
        """Return the machine in words."""
        return device


@lru_cache(maxsize=1)
def _machines() -> tuple[Machine, ...]:
    """Return the machines whose folders exist."""
    homes = [f"autofuse.machines.{name}" for name in MACHINES]
    return tuple(import_module(f"{h}.machine").MACHINE for h in homes if find_spec(h) is not None)


def machine_for(backend: str, device: str = CPU) -> Machine:
    """Return the machine that runs the kernels of a backend on a device.

    Args:
        backend: as in ``Target.backend``.
        device: a name such as ``cpu``, ``cuda:1`` or ``npu:0``; the machine refuses unknown ones.

    Raises:
        AutofuseError: AF5007, no machine runs kernels of this backend.
    """
    for machine in _machines():
        if machine.backend == backend and machine.takes(device):
            return machine
    raise AutofuseError.of("AF5007", f"no machine runs kernels of the backend {backend!r}")


def backend_of(files: Mapping[str, str], graph: FusionGraph) -> str:
    """Return the backend that wrote the files of a kernel: path inside the output folder -> text."""
    return next(m.backend for m in _machines() if m.wrote(files, graph))


def machine_of(files: Mapping[str, str], graph: FusionGraph, device: str = CPU) -> Machine:
    """Return the machine that runs the kernel in files on a device."""
    return machine_for(backend_of(files, graph), device)


def refuse_others(machine: Machine, given: Mapping[str, object]) -> None:
    """Raise AF5007 for the first given option that the machine does not support.

    Args:
        machine: the machine that is to run a kernel.
        given: options as the user writes them (``--check-seed`` or ``check_seed``) -> value; false if not given.
    """
    for option, value in given.items():
        if value and option.lstrip("-").replace("-", "_") not in machine.options:
            text = f"{option} is for the CPU twin, which runs Ascend C kernels"
            raise AutofuseError.of("AF5007", text, hint=f"leave out {option}")


def verify(
    files: Mapping[str, str],
    graph: FusionGraph,
    device: str = CPU,
    *,
    target: Target | None = None,
    **options: Any,
) -> VerifyReport:
    """Run a kernel on random data in a worker process, and compare every element with NumPy.

    Args:
        files: path inside the output folder -> text.
        graph: the graph of the kernel.
        device: the device.
        target: target of the kernel, if known.
        **options: of :meth:`Machine.verify_here`.

    Returns:
        The report; a wrong, crashing or hanging kernel is a finding in it.

    Raises:
        AutofuseError: AF5001, AF5002, AF5007: it cannot be compiled, or does not run there.
    """
    machine_of(files, graph, device).needs(device, target)
    with WorkerPool(_JOB, workers=1, memory_mb=memory_limit(device)) as pool:
        return verify_in_subprocess(files, graph, pool=pool, device=device, **options)


def verify_job(payload: str) -> dict[str, Any]:
    """Verify a kernel in a worker; the payload is from ``pack``, and its options have the ``device``."""
    files, graph, options = unpack(payload)
    device = options.pop("device", CPU)
    return machine_of(files, graph, device).verify_here(files, graph, device, **options).to_json()


def names_in(folder: Path) -> Mapping[str, str]:
    """Return the names of the files directly in a folder, without their text, for :func:`backend_of`."""
    return {p.name: "" for p in folder.iterdir() if p.is_file()}
