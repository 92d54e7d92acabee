"""Kernels with every element-wise op of the registry by dtype, several per kernel, and every cast."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from autofuse.implgraph.ir.fusion import FusionGraph, GraphOutput
from autofuse.implgraph.ops.registry import lookup

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from op_graphs import DTYPES, graphs

__all__ = ["op_kernels"]

#: Dtypes computed in a wider dtype that are tested too: the casts are the same for all ops.
_KEPT = frozenset({"int8", "uint16"})
_PER_KERNEL = 16


def op_kernels() -> Iterator[tuple[str, FusionGraph]]:
    """Yield (name, graph) of as few kernels as possible."""
    batch: list[FusionGraph] = []
    made = 0
    for _, graph, _ in graphs([d for d in DTYPES if d != "uint64"]):
        if not _is_kept(graph):
            continue
        batch.append(graph)
        if len(batch) == _PER_KERNEL:
            yield f"ops_{made:03}", _joined(batch)
            made += 1
            batch = []
    if batch:
        yield f"ops_{made:03}", _joined(batch)


def _is_kept(graph: FusionGraph) -> bool:
    (node,) = graph.nodes
    row = lookup(node.op)
    dtype = graph.tensors[graph.inputs[-1]].dtype.name
    if dtype == "int64" and row.name == "Pow":
        return False  # 800 calls
    return not (dtype in row.promote and row.cost in ("unary", "div") and dtype not in _KEPT)


def _joined(batch: list[FusionGraph]) -> FusionGraph:
    """Return one graph with all nodes; inputs with the same name are merged."""
    inputs, tensors, nodes, outputs = {}, {}, [], []
    for k, g in enumerate(batch):
        (node,) = g.nodes
        (made,) = node.outputs
        out = f"y{k}_{node.op.lower()}"
        inputs |= {n: g.tensors[n] for n in g.inputs}
        tensors[out] = replace(g.tensors[made], name=out)
        nodes.append(replace(node, name=f"n{k}", outputs=(out,)))
        outputs.append(GraphOutput(out, out))
    return FusionGraph("ops", (), tuple(inputs), tuple(nodes), tuple(outputs), inputs | tensors)
