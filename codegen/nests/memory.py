"""Memory that the kernels of a graph read and write: its inputs, its outputs, and scratch between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from autofuse.codegen.nests.names import Names
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph

__all__ = ["Memories", "Memory", "Role"]


class Role(str, Enum):
    """Role of a tensor's memory: input, output or scratch."""

    INPUT = "input"
    OUTPUT = "output"
    SCRATCH = "scratch"


@frozen
class Memory:
    """A tensor in memory.

    Attributes:
        role: an input or an output of the graph, or scratch that the wrapper allocates.
        name: name in the wrapper.
        dtype: dtype of an element.
        size: for scratch, the number of elements.
    """

    role: Role
    name: str
    dtype: DType
    size: Expr | None = None


@dataclass
class Memories:
    """The memory of a graph.

    Attributes:
        inputs, outputs: in the order of the graph; an output that overwrites an input is that input.
        scratch: memory allocated between kernels.
        buffers: memory of Data, Output and Workspace nodes, by node name.
        targets: memory that each Store writes.
    """

    names: Names
    inputs: list[Memory]
    outputs: list[Memory] = field(default_factory=list)
    scratch: list[Memory] = field(default_factory=list)
    buffers: dict[str, Memory] = field(default_factory=dict)
    targets: dict[str, Memory] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: FusionGraph, hint: HintGraph, names: Names) -> Memories:
        """Return the memory of a graph and its loop-level form; ``names`` gives the identifiers."""
        named: Sequence[str] = graph.inputs
        found = cls(
            names, [Memory(Role.INPUT, names.take(x), graph.tensors[x].dtype) for x in named]
        )
        for o in graph.outputs:
            if o.inout is not None:
                found.outputs.append(found.inputs[graph.inputs.index(o.inout)])
            else:
                dtype = graph.tensors[o.tensor].dtype
                found.outputs.append(Memory(Role.OUTPUT, names.take(o.name), dtype))
        for n in hint.nodes:
            if n.op == "Data":
                found.buffers[n.name] = found.inputs[n.number("index")]
            elif n.op == "Output":
                found.targets.update(dict.fromkeys(n.inputs, found.outputs[n.number("index")]))
            elif n.op == "Workspace":
                m = found.allocate(n.y.dtype, n.size("size"), "scratch")
                found.buffers[n.name] = m
                found.targets.update(dict.fromkeys(n.inputs, m))
        return found

    def allocate(self, dtype: DType, size: Expr, base: str) -> Memory:
        """Allocate scratch of ``size`` elements."""
        m = Memory(Role.SCRATCH, self.names.take(base), dtype, size)
        self.scratch.append(m)
        return m
