"""Signature of a graph in the JSON: its tensors and symbols, for every target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autofuse.clients.akg.models import SCHEMA
from autofuse.codegen.backends.triton.python_text import Names, to_python
from autofuse.implgraph.expr.expression import Expr, sym
from autofuse.implgraph.ir.fusion import FusionGraph, Tensor
from autofuse.targets import Target

__all__ = ["Sizes", "document_keys", "signature"]


class Sizes:
    """Sizes of a graph as written in its JSON.

    Attributes:
        names: symbol -> its name in the JSON, an identifier that is not a Python keyword.
    """

    def __init__(self, graph: FusionGraph) -> None:
        taken = Names()
        self.names: Mapping[str, str] = {s.name: taken.take(s.name) for s in graph.symbols}

    def size(self, e: Expr) -> int | str:
        """Return a number, or Python integer arithmetic on symbols."""
        number = e.as_int()
        return to_python(e, self.names) if number is None else number

    def shape(self, sizes: Iterable[Expr]) -> tuple[int | str, ...]:
        """Return a shape as JSON sizes."""
        return tuple(self.size(e) for e in sizes)


def signature(graph: FusionGraph, target: Target, sizes: Sizes) -> dict[str, Any]:
    """Return the part under the key ``autofuse`` that all kinds of target share."""
    inputs = [graph.tensors[x] for x in graph.inputs]
    return {
        "schema": SCHEMA,
        "graph": graph.label,
        "target": target.name,
        "inputs": tuple(_tensor(t, t.name, sizes) for t in inputs),
        "outputs": tuple(
            _tensor(graph.tensors[o.tensor], o.name, sizes)
            | ({} if o.inout is None else {"input": graph.inputs.index(o.inout)})
            for o in graph.outputs
        ),
        "symbols": tuple(
            {
                "name": sizes.names[s.name],
                "called": s.label,
                "min": s.min,
                "max": s.max,
                **_place(s.name, inputs),
            }
            for s in graph.symbols
        ),
    }


def _tensor(t: Tensor, name: str, sizes: Sizes) -> dict[str, Any]:
    strides = None if t.strides is None else sizes.shape(t.strides)
    return {"name": name, "dtype": t.dtype.name, "shape": sizes.shape(t.shape), "strides": strides}


def _place(symbol: str, inputs: Iterable[Tensor]) -> dict[str, int | None]:
    """Return the input and dimension that determine the size of a symbol, or None for both."""
    for i, t in enumerate(inputs):
        for d, e in enumerate(t.shape):
            if e == sym(symbol):
                return {"input": i, "dim": d}
    return {"input": None, "dim": None}


def document_keys(
    graph: FusionGraph, sizes: Sizes, capability: str | None, arch: str
) -> dict[str, Any]:
    """Return the document's keys that do not depend on the kind of target."""
    inputs = [graph.tensors[x] for x in graph.inputs]
    outputs = [graph.tensors[o.tensor] for o in graph.outputs]
    return {
        "dynamic": bool(graph.symbols),
        "targetInfo": {"compute_capability": capability, "arch": arch},
        "inputShapes": tuple(sizes.shape(t.shape) for t in inputs),
        "outputShapes": tuple(sizes.shape(t.shape) for t in outputs),
        "inputTypes": tuple(t.dtype.name for t in inputs),
        "outputTypes": tuple(t.dtype.name for t in outputs),
    }
