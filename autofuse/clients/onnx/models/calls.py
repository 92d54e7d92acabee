"""Kernel calls while a model runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from autofuse import api

if TYPE_CHECKING:
    from autofuse.clients.onnx.models.result import ModelResult

__all__ = ["Called", "KernelCall", "called", "kernel_calls"]


@dataclass(frozen=True, slots=True)
class Called:
    """One call of a kernel.

    Attributes:
        outputs: outputs by parameter.
        bytes_moved: bytes between GM and the cores, counted by the twin; None if unknown.
        seconds: duration of the call.
    """

    outputs: Mapping[str, Any]
    bytes_moved: int | None
    seconds: float


#: Calls a kernel by its name, with arrays by parameter, and sizes of its symbols.
KernelCall: TypeAlias = Callable[[str, Mapping[str, Any], Mapping[str, int]], Called]


def kernel_calls(built: ModelResult, *, check: str = "fast", check_seed: int = 0) -> KernelCall:
    """Return a function that calls the kernels through :func:`autofuse.load`; each is compiled on its first call.

    Args:
        built: the model.
        check: as for :func:`autofuse.load`.
        check_seed: as for :func:`autofuse.load`.
    """
    loaded: dict[str, Any] = {}

    def call(name: str, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> Called:
        if name not in loaded:
            loaded[name] = api.load(built.kernels[name], check=check, check_seed=check_seed)
        return called(loaded[name], arrays, sizes)

    return call


def called(kernel: Any, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> Called:
    """Call a loaded kernel; the twin counts bytes."""
    from autofuse.machines.twin.run.kernel import TwinKernel
    from autofuse.machines.twin.run.record import core_bytes
    from autofuse.machines.twin.verify.split import SplitKernel

    start = time.perf_counter()
    done = kernel.run(dict(arrays), symbols=sizes)
    seconds = time.perf_counter() - start
    # With several kernels, only the bytes of the last one are known.
    counted = isinstance(kernel, TwinKernel) and not isinstance(kernel, SplitKernel)
    moved = None if not counted else sum(a + b for a, b in core_bytes())
    return Called(done.outputs, moved, seconds)
