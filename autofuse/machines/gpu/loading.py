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
    "function_here",
    "load_here",
    "module_file",
    "needs_triton",
]

#: Elements of the largest tensor of a run in the interpreter, which takes a millisecond or more for a program.
INTERPRETED_ELEMENTS = 1 << 16
#: PyTorch takes no leading zeros, and keeps the number of a card in 8 bits.
_DEVICE = re.compile(r"cpu|cuda(:(0|[1-9][0-9]?))?")


def module_file(graph: FusionGraph) -> str:
    """The path of the module inside the output folder."""
    return f"{graph.name}_triton.py"


def checked_device(device: str) -> str:
    """The device, as PyTorch names it; whether there is such a card is found out in the worker.

    Raises:
        AutofuseError: AF5001, PyTorch or Triton are missing; AF5007, it is none that kernels run on.
    """
    if not _DEVICE.fullmatch(device):
        text = f"kernels run on cpu, cuda or cuda:N, not on {device!r}"
        raise AutofuseError.of("AF5007", text, hint="cpu is Triton's interpreter")
    needs_triton()
    return device


def needs_triton() -> None:
    """Raises AF5001 where PyTorch or Triton are not installed."""
    missing = [name for name in ("torch", "triton") if find_spec(name) is None]
    if missing:
        text = f"modules of Triton kernels need {' and '.join(missing)}, not installed here"
        raise AutofuseError.of("AF5001", text, hint="pip install 'ascend-autofuse[gpu]'")


def load_here(files: Mapping[str, str], graph: FusionGraph, device: str = CPU) -> TritonModule:
    """The module in this process, which has to be a worker: for a CPU, Triton interprets all kernels from now on.

    Args:
        files: what was generated: path inside the output folder -> text.
        graph: what it was generated from.
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
    """A function of any module in this process, as :func:`load_here`.

    Args:
        text: of the module.
        graph: what the function computes.
        entry: its name.
        device: see :func:`checked_device`.
        spread: inputs that the graph gives no strides have gaps between their elements.
        call: its parameters; None: the inputs of the graph.

    Raises:
        AutofuseError: as :func:`load_here`.
    """
    if device == CPU:
        os.environ["TRITON_INTERPRET"] = "1"
        from autofuse.machines.gpu.interpreter import mend_interpreter

        mend_interpreter()
    else:
        # Else Triton would interpret what is to run on the card.
        os.environ.pop("TRITON_INTERPRET", None)
    from autofuse.machines.gpu.module import TritonModule

    return TritonModule(text, graph, entry, device, spread=spread, call=call)
