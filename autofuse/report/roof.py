"""Lower bound of a kernel's time on a chip, from its graph alone: no scheduler is asked.

The roof is the start of a kernel, and the longer of two times that no schedule avoids: moving each byte of inputs
that results need, and of outputs, once at the rate of GM; and one vector instruction per op at the peak of the vendor,
on all cores. Times are the model's, from figures of the target file.
"""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.implgraph.expr.expression import product
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, Tensor
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.rewrites.decompose import decompose
from autofuse.targets import TargetSpec

__all__ = ["Roof", "needed_elements", "roof"]

#: Ops that the DMA does while it moves data, or that move nothing.
_MOVED = frozenset(
    {"broadcast", "view", "transpose", "slice", "concat", "pad", "frame", "iota", "gather"}
)


@frozen
class Roof:
    """The roof of a kernel, in microseconds of the model, and the bytes that it must read and write.

    Attributes:
        start_us: start of the kernel on all cores.
        memory_us: ``read_bytes`` and ``written_bytes`` at the rate of GM.
        vector_us: the fewest vector instructions on all cores.
    """

    start_us: float
    memory_us: float
    vector_us: float
    read_bytes: int
    written_bytes: int

    @property
    def total_us(self) -> float:
        """Return the lower bound of the time."""
        return self.start_us + max(self.memory_us, self.vector_us)


def roof(graph: FusionGraph, sizes: Mapping[str, int], target: TargetSpec) -> Roof:
    """Return the roof of a graph on a chip.

    Args:
        graph: the graph of the kernel.
        sizes: values of all symbols.
        target: the chip.
    """
    written = {o.tensor: _count(graph.tensors[o.tensor], sizes) for o in graph.outputs}
    needed = needed_elements(graph, sizes)
    read = sum(needed.get(i, 0) * graph.tensors[i].dtype.itemsize for i in graph.inputs)
    write = sum(
        _count(graph.tensors[o.tensor], sizes) * graph.tensors[o.tensor].dtype.itemsize
        for o in graph.outputs
    )
    cycles = sum(
        _cycles(n, graph_, sizes, target) for graph_ in (decompose(graph),) for n in graph_.nodes
    )
    per_us = target.clock_mhz * target.aiv_cores
    return Roof(
        target.kernel_head_us + target.model.core_start * target.aiv_cores / target.clock_mhz
        if written
        else 0.0,
        (read + write) / (target.gm_bandwidth_gbs * 1e3),
        cycles / per_us,
        read,
        write,
    )


def needed_elements(graph: FusionGraph, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the elements of every tensor that the outputs need: all, or those that slices and gathers take.

    Slices of a tensor that overlap count once as far as they exceed it together.
    """
    outputs = {o.tensor for o in graph.outputs}
    count = {name: _count(t, sizes) for name, t in graph.tensors.items()}
    needed = {name: count[name] if name in outputs else 0 for name in graph.tensors}
    for n in reversed(graph.nodes):
        (result,) = n.outputs
        kind = lookup(n.op).compute_type
        for i, x in enumerate(n.inputs):
            if not isinstance(x, str):
                continue
            one_to_one = kind in ("elewise", "view", "transpose") and count[x] == count[result]
            taken = kind == "slice" or (kind == "gather" and i == 0)
            part = needed[result] if one_to_one or taken else count[x] * (needed[result] > 0)
            needed[x] = min(count[x], needed[x] + part)
    return needed


def _takes_elements(n: FusionNode, graph: FusionGraph) -> bool:
    """Return True if a node gathers single elements, which only vector instructions do without a command for each."""
    if lookup(n.op).compute_type != "gather" or not isinstance(n.inputs[0], str):
        return False
    shape = graph.tensors[n.inputs[0]].shape
    axis = n.attrs["axis"]
    assert isinstance(axis, int)
    return product(shape[axis % len(shape) + 1 :]) == 1


def _count(t: Tensor, sizes: Mapping[str, int]) -> int:
    return product(t.shape).evaluate(sizes)


def _cycles(
    n: FusionNode, graph: FusionGraph, sizes: Mapping[str, int], target: TargetSpec
) -> float:
    """Return the cycles of one instruction for a node, on one core."""
    row = lookup(n.op)
    tensors = [graph.tensors[x] for x in (*n.inputs, *n.outputs) if isinstance(x, str)]
    result = graph.tensors[n.outputs[0]]
    if row.compute_type in _MOVED and not _takes_elements(n, graph):
        return 0.0
    kind = "binary" if row.compute_type in ("reduce", "scan") else row.cost
    cost = target.vector[kind]
    results = [result] if row.compute_type == "gather" else tensors
    elements = max(_count(t, sizes) for t in results)
    widest = max(t.dtype.itemsize for t in tensors)
    # bfloat16 is computed in float32, 64 bits in two words.
    narrow = widest <= 2 and result.dtype.name != "bfloat16"
    rate = (cost.rate16 if narrow else cost.rate32) * target.model.vector_issue
    return elements * max(widest // 4, 1) / rate if rate else 0.0
