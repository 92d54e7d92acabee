"""An Ascend C kernel on an NVIDIA card as a Python function on NumPy arrays."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.data import POISON, poisoned
from autofuse.machines.twin.run.compile import QUICK, compile_kernel, level
from autofuse.machines.twin.run.kernel import ALIGN, Frame, TwinKernel, chip_of, needs_launcher
from autofuse.machines.twin.run.native import KernelLibrary, Region, Tiling
from autofuse.machines.twin.verify.split import read_parts
from autofuse.machines.witness.driver import Card, Function, open_card
from autofuse.machines.witness.nvcc import CAPABILITY, ENTRY, THREADS, compile_for_card
from autofuse.machines.words import card_index
from autofuse.targets import TargetSpec

__all__ = ["CudaKernel", "check_chip", "runs_on_cards"]

_TIMEOUT = 60.0


def runs_on_cards(files: Mapping[str, str], graph: FusionGraph) -> TargetSpec:
    """Return the chip of a kernel, whose UB and cores a card emulates.

    Raises:
        AutofuseError: AF5007, the graph has several kernels, or it is not in Ascend C, or the headers for a card lack
            the calls of its architecture.
    """
    if read_parts(files, graph.name):
        text = f"{graph.label} has several kernels, whose driver does not run on a card"
        hint = "run its parts one by one: build --split writes each into a folder under parts/"
        raise AutofuseError.of("AF5007", text, hint=hint)
    needs_launcher(graph, files)
    chip = chip_of(files, graph.name)
    if chip is None:
        text = f"{graph.label} is not an Ascend C kernel whose metadata name its target"
        raise AutofuseError.of("AF5007", text, hint="without --device it runs on the CPU twin")
    check_chip(chip)
    return chip


def check_chip(chip: TargetSpec) -> None:
    """Raise AF5007 for a chip whose calls the headers for a card lack."""
    if not chip.arch.has_card_headers:
        text = (
            f"kernels for {chip.name} do not run on a card: there are no headers for a card with the calls of "
            f"architecture {chip.arch.name}"
        )
        hint = "without --device they run on the CPU twin; kernels for -t ascend910b1 run on a card"
        raise AutofuseError.of("AF5007", text, hint=hint)


class CudaKernel(TwinKernel):
    """A kernel that runs on a card; the CPU twin's library provides its host functions.

    Args:
        files: path inside the output folder -> text.
        graph: the graph that they were generated from.
        device: ``cuda`` or ``cuda:INDEX``.
        timeout: time limit of a launch in seconds.
        library: the host functions, if already loaded.
        image: the binary, if already compiled.

    Raises:
        AutofuseError: AF5001 nvcc or the card are missing; AF5002 the kernel does not compile; AF5007 a card cannot run
            the kernel, or the kernel needs more UB than a block may have.

    After a failed launch, this process can no longer use the card.
    """

    def __init__(
        self,
        files: Mapping[str, str],
        graph: FusionGraph,
        device: str = "cuda",
        *,
        timeout: float = _TIMEOUT,
        library: KernelLibrary | None = None,
        image: bytes | None = None,
    ) -> None:
        index = card_index(device)
        if index is None:
            text = f"Ascend C kernels run on cuda or cuda:N, not on {device!r}"
            raise AutofuseError.of("AF5007", text, hint="--device cuda is the first card")
        chip = runs_on_cards(files, graph)
        self._ub = chip.ub_usable
        self.card: Card = open_card(index)
        if self.card.capability < CAPABILITY:
            text = (
                f"{self.card.name} has compute capability {self.card.capability / 10}: Ascend C kernels need "
                f"{CAPABILITY / 10} or later, for barriers and shared memory"
            )
            raise AutofuseError.of("AF5007", text, hint="without --device they run on the CPU twin")
        # Report a missing card before compiling anything, and missing requirements of nvcc before g++'s.
        image = image or compile_for_card(files, graph.name, self.card.capability)
        path = Path() if library else compile_kernel(files, graph.name, opt=level(QUICK))
        super().__init__(path, graph, chip=chip, library=library)
        self.device, self.timeout = f"cuda:{index}", timeout
        self._function: Function = self.card.function(image, ENTRY)
        if self._ub > self._function.room:
            raise AutofuseError.of(
                "AF5007",
                f"{graph.label} may use the {counted(self._ub, 'byte')} of UB of {chip.name}, "
                f"and a block on {self.card.name} "
                f"has {counted(max(self._function.room, 0), 'byte')} of shared memory",
                hint="without --device it runs on the CPU twin",
            )

    @property
    def runs_on(self) -> str:
        """Description of the card."""
        return f"{self.device} ({self.card.name})"

    def _launch(
        self, frame: Frame, key: int | None, record: Sequence[int] = (), limit: int = 0
    ) -> None:
        """Launch the kernel; raise AF5003 if it fails."""
        with self._on_card(frame) as pointers:
            self.queue(frame.tiling, pointers)
            self.card.wait(self.timeout)
            for region, at in zip(frame.regions, pointers, strict=True):
                if region.writable and not region.scratch:
                    self.card.to_host(region.address, at, region.bytes)

    def queue(self, tiling: Tiling, pointers: Sequence[int]) -> None:
        """Queue a launch on memory of the card without waiting for it.

        Args:
            tiling: the tiling function's choice.
            pointers: addresses of inputs, outputs and workspace, in the order of the launcher.

        Raises:
            AutofuseError: AF5003, it cannot be launched.
        """
        data = struct.pack(f"<{len(pointers)}Q", *pointers) + tiling.data
        # The size of the structure is a multiple of 8 bytes.
        arguments = [data + bytes(-len(data) % 8), struct.pack("<I", self._ub)]
        self._function.launch(tiling.block_dim, THREADS, self._ub, arguments)

    def run_at(
        self, symbols: Sequence[int], pointers: Sequence[int], sizes: Sequence[int], inputs: int
    ) -> None:
        """Run the kernel on copies of memory of the host.

        Args:
            symbols: sizes in the order of the graph.
            pointers: addresses of inputs and outputs on the host, in the order of the launcher.
            sizes: bytes at each of them.
            inputs: number of read-only ones, which come first.

        Raises:
            StatusError: the tiling function refused.
            AutofuseError: AF5003, the kernel failed.
        """
        tiling = self.library.tiling(symbols)
        frame = Frame({}, tiling, {})
        for k, (at, size) in enumerate(zip(pointers, sizes, strict=True)):
            frame.pointers.append(at)
            frame.regions.append(Region(at, size, str(k), writable=k >= inputs))
        scratch = poisoned((tiling.workspace + ALIGN,), np.dtype(np.uint8))
        frame.add_memory("workspace", scratch, tiling.workspace)
        self._launch(frame, None)

    def time(
        self,
        inputs: Mapping[str, Any],
        *,
        warm_up: int = 10,
        repeats: int = 50,
        clear: bool = False,
        symbols: Mapping[str, int] | None = None,
        key: int | None = None,
        cores: int = 0,
    ) -> list[float]:
        """Time launches by events of the card; these are times of a GPU, not of an Ascend chip.

        In-out parameters are overwritten repeatedly; the given arrays are not modified.

        Args:
            inputs: as for :meth:`run`.
            warm_up: as for :meth:`Card.time <autofuse.machines.witness.driver.Card.time>`.
            repeats: as there.
            clear: as there.
            symbols: as for :meth:`run`.
            key: as there.
            cores: as there.

        Returns:
            Microseconds of each timed launch, in order.

        Raises:
            AutofuseError: as :meth:`run`.
        """
        frame = self._frame(inputs, symbols or {}, key, cores, POISON[0])
        with self._on_card(frame) as pointers:
            return self.card.time(
                lambda: self.queue(frame.tiling, pointers),
                warm_up=warm_up,
                repeats=repeats,
                clear=clear,
                seconds=self.timeout,
            )

    @contextmanager
    def _on_card(self, frame: Frame) -> Iterator[tuple[int, ...]]:
        """Yield the addresses of a launch's memory on the card, in the order of the launcher."""
        self.card.use()
        needed: dict[int, int] = {}
        for r in frame.regions:
            needed[r.address] = max(r.bytes, needed.get(r.address, 0))
        there: dict[int, int] = {}
        try:
            for address, size in needed.items():
                there[address] = self.card.malloc(size)
                self.card.to_card(there[address], address, size)
            yield tuple(there[r.address] for r in frame.regions)
        finally:
            # Memory of a hanging kernel cannot be freed: the call would wait for the kernel.
            for at in () if self.card.lost else there.values():
                self.card.free(at)
