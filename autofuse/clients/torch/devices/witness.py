"""Ascend C kernels for CPU tensors, run on a card instead of the CPU twin, to check large modules."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from autofuse import api
from autofuse.base import knobs
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.twin.run.native import StatusError
from autofuse.machines.witness.kernel import CudaKernel
from autofuse.machines.words import card_index

__all__ = ["CardKernel"]


class CardKernel:
    """A kernel that a card runs on copies of the tensors' memory.

    Args:
        result: the library's result for the graph.

    Raises:
        AutofuseError: AF5008, the knob names no card; AF5001 nvcc or the card is missing, AF5002 the kernel does not
            compile, AF5007 a card cannot run the kernel: it is one of several, or for another architecture.
    """

    def __init__(self, result: api.SplitResult) -> None:
        device = knobs.DEVICE.get()
        if card_index(device) is None:
            text = f"{knobs.DEVICE.name}={device!r} does not name a device"
            raise AutofuseError.of("AF5008", text, hint=f"{knobs.DEVICE.name}: {knobs.DEVICE.doc}")
        self._kernel = CudaKernel(result.files, result.graph, device)
        self._lock = threading.Lock()

    def run(
        self,
        symbols: Sequence[int],
        pointers: Sequence[int],
        threads: int,
        sizes: Sequence[int],
        inputs: int,
    ) -> tuple[int, str]:
        """Compute the tiling, launch, and wait for the kernel.

        Args:
            symbols: sizes in the order of the graph.
            pointers: addresses of inputs and outputs on the host.
            threads: unused.
            sizes: accessible bytes from each pointer.
            inputs: number of read-only pointers, which come first.

        Returns:
            (0, ""), or a status of the tiling function and its text.

        Raises:
            AutofuseError: AF5003, the kernel fails on the card; this process then cannot use the card any more.
        """
        try:
            with self._lock:
                self._kernel.run_at(symbols, pointers, sizes, inputs)
        except StatusError as e:
            return e.rc, e.text
        return 0, ""
