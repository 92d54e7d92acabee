"""Names of a kernel's parameters, tensors, queues and buffers, derived from their contents.

Names of the graph are kept: ``x`` is the parameter, ``x_gm`` the tensor in GM, ``x_local`` its tile in UB, ``x_queue``
the queue of the tile.  Values without a name in the graph are named after their node.  A buffer that holds several
tensors in turn bears the name of none: ``shared0_buf``.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from autofuse.codegen.ir.kernel_ir import Parameters
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import BufferKind, BufferPlan, ImplGraph, Node
from autofuse.implgraph.ir.names import symbol_identifier
from autofuse.schedule.placement.picking import is_run

__all__ = ["Names", "parameter_names"]


def parameter_names(graph: FusionGraph) -> Parameters:
    """Return the kernel's GM parameters: the inputs, then the outputs, by their names in the graph.

    They are local names in every function of the kernel, and distinct from symbols and functions.
    """
    taken = {s.name for s in graph.symbols}
    like_a_template = re.compile(rf"{re.escape(graph.name)}_\d")

    def name(tensor: str) -> str:
        # Template functions are named after the graph, with the number of a result appended.
        own = f"v_{tensor}" if like_a_template.match(tensor) else tensor
        return symbol_identifier(own, taken)

    return Parameters(
        tuple([name(t) for t in graph.inputs]), tuple([name(o.name) for o in graph.outputs])
    )


class Names:
    """Names of one template; equal templates have equal names.

    Args:
        impl: template.
        params: names of its inputs and outputs.
    """

    def __init__(self, impl: ImplGraph, params: Parameters) -> None:
        self.nodes = impl.by_name()
        # An accumulator shares the tensor of its initial value.
        self._same = {n.name: n.joins for n in impl.nodes if n.joins is not None}
        sinks = {
            x: params.outputs[n.number("index")]
            for n in impl.nodes
            if n.op == "Output"
            for x in n.inputs
        }
        self._results = {n.inputs[0]: sinks[n.name] for n in impl.nodes if n.name in sinks}
        taken: set[str] = set()
        self._stems = {n.name: _unique(self._stem(n, params), taken) for n in impl.nodes}
        taken = set()
        shared = itertools.count()
        # Queues and buffers are numbered separately.
        self._buffers = {
            (b.kind, b.id): _unique(self._buffer(b, impl.nodes, shared), taken)
            for b in impl.buffers
        }
        times = Counter(b.nbytes for b in impl.buffers)
        slots = itertools.count()
        #: Name of every size that several buffers have.
        self._slots = {
            e: f"slot{next(slots)}_bytes" for e, k in times.items() if k > 1 and not e.is_const
        }

    def _stem(self, n: Node, params: Parameters) -> str:
        if n.op == "Load" and len(n.inputs) == 1:
            source = self.nodes[n.inputs[0]]
            if source.op == "Data":
                name = params.inputs[source.number("index")]
                name = f"{name}_run" if is_run(n) else name
                return f"{name}_pass{n.loop_pass}" if n.loop_pass else name
        elif n.inputs and is_run(self.nodes[n.inputs[0]]):
            # The elements picked from a run are the tile.
            source = self.nodes[self.nodes[n.inputs[0]].inputs[0]]
            if source.op == "Data":
                return params.inputs[source.number("index")]
        return self._results.get(n.name, n.name)

    def _buffer(self, b: BufferPlan, nodes: Sequence[Node], shared: Iterator[int]) -> str:
        """Return the name of a buffer's only content, or a number if several tensors live there in turn."""
        if b.pad:
            return "bank_gap"
        queue = b.kind is BufferKind.QUEUE
        #: A tensor that several passes load is one content.
        held: dict[str, str] = {}
        for n in nodes:
            que = None if n.y.que is None else n.y.que.id
            if n.op != "Store" and (que if queue else n.y.buf) == b.id:
                source = n.inputs[0] if n.op == "Load" and len(n.inputs) == 1 else ""
                held.setdefault(source or self.called(n), self.called(n))
            if not queue and any(t.id == b.id for t in n.tmp_buffers):
                held[f"{n.name} tmp"] = self.scratch(n)
        ((_, stem),) = held.items() if len(held) == 1 else (("", f"shared{next(shared)}"),)
        return f"{stem}_{'queue' if queue else 'buf'}"

    def called(self, n: Node) -> str:
        """Return the kernel's name for the value that the node makes or loads."""
        return self._stems[self._same.get(n.name, n.name)]

    def local(self, n: Node) -> str:
        """Return the tensor in UB that holds the result of a node."""
        return f"{self.called(n)}_local"

    def scratch(self, n: Node) -> str:
        """Return the scratch space of a node's call."""
        return f"{self._stems[n.name]}_tmp"

    def scalar(self, n: Node) -> str:
        """Return the variable for the single element of a tensor."""
        return f"{self._stems[n.name]}_scalar"

    def place(self, n: Node) -> str:
        """Return the variable for the element of the indexed dimension that a Load takes."""
        return f"{self._stems[n.name]}_at"

    def declared(self, b: BufferPlan) -> str:
        """Return the name of a queue or a buffer."""
        return self._buffers[b.kind, b.id]

    def size(self, b: BufferPlan) -> str:
        """Return the name for the bytes of a queue or a buffer, the same for all of that size."""
        return self._slots.get(b.nbytes) or f"{self._buffers[b.kind, b.id]}_bytes"

    def buffer(self, number: int) -> str:
        """Return the name of a buffer, by its number."""
        return self._buffers[BufferKind.BUF, number]

    def queue(self, n: Node) -> str:
        """Return the queue of a node's result."""
        assert n.y.que is not None, f"{n.name} has no queue"
        return self._buffers[BufferKind.QUEUE, n.y.que.id]


def _unique(name: str, taken: set[str]) -> str:
    number, found = 2, name
    while found in taken:
        found = f"{name}_{number}"
        number += 1
    taken.add(found)
    return found
