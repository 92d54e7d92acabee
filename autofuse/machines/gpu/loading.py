"""Checks and loading of Triton kernel modules; imports without Triton."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.words import CPU

if TYPE_CHECKING:
    from autofuse.codegen.backends.triton.call import Call
    from autofuse.machines.gpu.module import TritonModule

__all__ = [
    "INTERPRETED_ELEMENTS",
    "checked_device",
    "flushes",
    "function_here",
    "load_here",
    "module_file",
    "needs_triton",
]

#: Most elements of a tensor in the interpreter, which takes a millisecond or more per program.
INTERPRETED_ELEMENTS = 1 << 16
#: PyTorch accepts no leading zeros, and stores the number of a card in 8 bits.
_DEVICE = re.compile(r"cpu|cuda(:(0|[1-9][0-9]?))?")


def module_file(graph: FusionGraph) -> str:
    """Return the path of the module inside the output folder."""
    return f"{graph.name}_triton.py"


def checked_device(device: str) -> str:
    """Return PyTorch's name of the device; the worker checks that the card exists.

    Raises:
        AutofuseError: AF5001, PyTorch or Triton are missing; AF5007, kernels do not run on such a device.
    """
    if not _DEVICE.fullmatch(device):
        text = f"kernels run on cpu, cuda or cuda:N, not on {device!r}"
        raise AutofuseError.of("AF5007", text, hint="cpu is Triton's interpreter")
    needs_triton()
    return device


def flushes(device: str) -> bool:
    """Return True for a card: there Triton compiles arithmetic that takes subnormal float32 numbers for zeros."""
    return device != CPU


def needs_triton() -> None:
    """Raise AF5001 if PyTorch or Triton are not installed."""
    missing = [name for name in ("torch", "triton") if find_spec(name) is None]
    if missing:
        text = f"Triton kernels need {' and '.join(missing)}, not installed here"
        raise AutofuseError.of("AF5001", text, hint="pip install 'ascend-autofuse[gpu]'")


def load_here(files: Mapping[str, str], graph: FusionGraph, device: str = CPU) -> TritonModule:
    """Load the module in this process, which must be a worker: for a CPU, Triton interprets all kernels from now on.

    Args:
        files: generated files: path inside the output folder -> text.
        graph: the graph that it was generated from.
        device: see :func:`checked_device`.

    Raises:
        AutofuseError: AF5001, there is no such card, or it cannot be used; AF5002, the module cannot be imported.
    """
    from autofuse.codegen.backends.triton.backend import entry_point

    return function_here(files[module_file(graph)], graph, entry_point(graph), device)


def function_here(
    text: str,
    graph: FusionGraph,
    entry: str,
    device: str = CPU,
    *,
    spread: bool = False,
    call: Call | None = None,
) -> TritonModule:
    """Load a function of any module in this process, as :func:`load_here`.

    Args:
        text: text of the module.
        graph: the graph of the function.
        entry: its name.
        device: see :func:`checked_device`.
        spread: put gaps between the elements of inputs without strides in the graph.
        call: its parameters; None: the inputs of the graph.

    Raises:
        AutofuseError: as :func:`load_here`.
    """
    if device == CPU:
        os.environ["TRITON_INTERPRET"] = "1"
        from autofuse.machines.gpu.interpreter import mend_interpreter

        mend_interpreter()
    else:
        # Else Triton would interpret kernels meant for the card.
        os.environ.pop("TRITON_INTERPRET", None)
    from autofuse.machines.gpu.module import TritonModule

    return TritonModule(text, graph, entry, device, spread=spread, call=call)
