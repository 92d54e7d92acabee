"""The kernels of a region as Inductor runs them: Triton functions with launches as data, C++ loops, or an operator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from autofuse.clients.torch.lower import Lowered
from autofuse.clients.torch.options import Options
from autofuse.clients.torch.refusal import RefusedError
from autofuse.clients.torch.region import Runnable
from autofuse.codegen.backends.cpu.file_text import kernel_text, parameter_types
from autofuse.codegen.backends.cpu.plan import plan as plan_loops
from autofuse.codegen.backends.triton.blocks import WARP, power
from autofuse.codegen.backends.triton.kernels import Form, Kernel
from autofuse.codegen.backends.triton.launches import (
    Launch,
    for_every_size,
    grid_of,
    launches,
)
from autofuse.codegen.backends.triton.plan import plan
from autofuse.codegen.backends.triton.text.wrapper import kernels_text
from autofuse.codegen.nests.nest import unit_axis, varies
from autofuse.compiler import Stages, lower_to_plan
from autofuse.implgraph.expr.expression import product
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.registry import lookup
from autofuse.machines.gpu.importing import imported
from autofuse.targets import CpuTarget, GpuTarget, Target

__all__ = [
    "DETAILS",
    "SHORT_FLOATS",
    "LoopsProgram",
    "OperatorProgram",
    "TritonProgram",
    "check_launcher",
]

#: Words of a form that say what its elements are, and how long and how many its rows are.
SHORT_FLOATS = "16 bits"
DETAILS = frozenset(("short", "padded", "several", "long", "few", SHORT_FLOATS, "special"))

#: Programs below which most of a card is idle, and elements from which that matters.
_FEW, _MUCH = 64, 1 << 16
#: Elements of a row up to which a program holds several, and up to a power of 2 beside each.
_SHORT = 1024
#: Elements of a loop of lanes up to which its ends weigh, and bits of a short float.
_LANES, _HALF = 64, 16
#: Elements of a thread from which sums over rows no longer fit beside them in registers.
_LONG = 32


class TritonProgram:
    """The kernels of a graph, without a function that calls them.

    They need no option that Inductor's launcher drops: no clusters, and products and sums may be fused.

    Args:
        graph: the graph; the hints of its symbols are their typical sizes.
        target: a card, or the cores of a chip.

    Attributes:
        target: the target.
        program: the plan.

    Raises:
        AutofuseError: AF3001, AF3003, the target lacks an op or room.
    """

    def __init__(self, graph: FusionGraph, target: GpuTarget) -> None:
        self.target = target
        hint = lower_to_plan(graph, Stages(), masks=True)
        self.program = for_every_size(plan(graph, hint, target, clusters=False))

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Return the launches, in order."""
        return tuple(launches(self.program))

    @cached_property
    def kernels(self) -> tuple[Any, ...]:
        """Return the kernel of each launch.

        Raises:
            AutofuseError: AF5009, the cache folder cannot be used.
        """
        module = imported(kernels_text(self.program), f"{self.program.graph.name}_kernels.py")
        return tuple(
            _with_warps(getattr(module, launch.name), launch.warps) for launch in self.launches
        )

    @property
    def form(self) -> tuple[str, ...]:
        """Return the form of the kernel with the most elements, and what makes it slower or faster than others.

        Details of its rows (:data:`DETAILS`) come last.
        """
        typical = {s.name: s.hint or max(s.min, 1) for s in self.program.graph.symbols}
        elements = [k.nest.count(k.nest.axes).evaluate(typical) for k in self.program.kernels]
        at = max(range(len(elements)), key=elements.__getitem__)
        k = self.program.kernels[at]
        cols = k.nest.count(k.cols).evaluate(typical)
        loads = [n for n in k.nest.nodes if n.op == "Load" and varies(n) & frozenset(k.cols)]
        words = {
            "across": loads and not any(unit_axis(n) in k.cols for n in loads),
            "with sums": any(p.item is None for p in k.partials),
            "in parts": any(p.item is not None for p in k.partials),
            "running": any(n.op == "Scan" for n in k.nest.nodes),
            "again": k.form is Form.LOOP and len(k.passes) > 1,
            "short": k.form is Form.ROWS and cols <= _SHORT,
            "padded": k.form is Form.ROWS and cols <= _SHORT and 4 * power(cols) > 5 * cols,
            "several": len(elements) > 1 and not any(p.partials for p in self.program.kernels),
            "long": self._each(k) >= _LONG,
            "few": product(grid_of(k)).evaluate(typical) < _FEW and elements[at] >= _MUCH,
            SHORT_FLOATS: _has_short_floats(k.nest.nodes),
        }
        return (k.form.value, *(word for word, holds in words.items() if holds))

    @staticmethod
    def _each(k: Kernel) -> int:
        """Return the elements of a thread, for a kernel that also holds sums of them; else 0."""
        if k.blocks is None or not any(p.item is None for p in k.partials):
            return 0
        return k.blocks.rows * k.blocks.cols // (WARP * k.blocks.warps)


class LoopsProgram:
    """The C++ loops of a graph, without a library of their own.

    Args:
        graph: the graph; the hints of its symbols are their typical sizes.
        target: a CPU.

    Attributes:
        target: the target.
        program: the plan.

    Raises:
        AutofuseError: AF3001, an op has no C++ form.
    """

    def __init__(self, graph: FusionGraph, target: CpuTarget) -> None:
        self.target = target
        self.program = plan_loops(graph, lower_to_plan(graph, Stages()), target)

    @cached_property
    def text(self) -> str:
        """Return the text of the loops and their entry."""
        return kernel_text(self.program)

    @property
    def types(self) -> list[str]:
        """Return the types of what the entry takes."""
        return parameter_types(self.program)

    @property
    def form(self) -> tuple[str, ...]:
        """Return the form of the loops with the most elements, and what makes them slower or faster than others."""
        typical = {s.name: s.hint or max(s.min, 1) for s in self.program.graph.symbols}
        loops = self.program.loops
        elements = [x.nest.count(x.nest.axes).evaluate(typical) for x in loops]
        most = loops[max(range(len(elements)), key=elements.__getitem__)]
        lanes = most.nest.sizes[most.lanes].evaluate(typical)
        moved = [n for n in most.nest.nodes if n.op in ("Load", "Store")]
        strided = [n for n in moved if most.lanes in varies(n) and unit_axis(n) != most.lanes]
        words = {
            "scattered": most.across is None and bool(strided),
            "running": any(n.op == "Scan" for n in most.nest.nodes),
            "angles": any(n.op in ("Sin", "Cos") for n in most.nest.nodes),
            "special": any(lookup(n.op).special for n in most.nest.nodes),
            SHORT_FLOATS: _has_short_floats(moved),
            "several": len(elements) > 1,
            "short": lanes <= _LANES,
        }
        return (most.form.value, *(word for word, holds in words.items() if holds))


@dataclass(frozen=True, slots=True)
class OperatorProgram:
    """A kernel of a graph that Inductor calls as an operator of PyTorch.

    Attributes:
        graph: the graph.
        target: a chip.
        options: options of the backend.
        device: where the tensors lie.
        kernel: the loaded kernel, called with addresses.
    """

    graph: FusionGraph
    target: Target
    options: Options
    device: torch.device
    kernel: Runnable


def _has_short_floats(nodes: Iterable[Node]) -> bool:
    """Return True if floats of 16 bits are loaded or stored."""
    moved = [n.y.dtype for n in nodes if n.op in ("Load", "Store")]
    return any(d.kind == "f" and d.bits == _HALF for d in moved)


def _with_warps(kernel: Any, warps: int) -> Any:
    """Return a kernel that is compiled for a number of warps; Inductor reads it from the only configuration."""
    import triton

    return triton.autotune(configs=[triton.Config({}, num_warps=warps)], key=[])(kernel)


def check_launcher(lowered: Lowered) -> None:
    """Raise RefusedError for an op whose products and sums must round one by one: the launcher lets them be fused."""
    dtypes = lowered.graph.tensors
    for n in lowered.graph.nodes:
        if lookup(n.op).each_step and any(dtypes[t].dtype.kind == "f" for t in n.outputs):
            node = lowered.sources.get(n.name)
            why = "its products and sums must round one by one, which Inductor's launcher cannot ask for"
            raise RefusedError(why, *(() if node is None else (node,)))
