"""Writer of graph files (``autofuse.graph/1``)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.frontends.graph.definitions import is_symbol
from autofuse.frontends.graph.model import SCHEMA
from autofuse.implgraph.expr.expression import Expr, sym
from autofuse.implgraph.ir.fusion import AttrValue, Constant, FusionGraph, Tensor
from autofuse.implgraph.ir.names import identifier, legal_name

__all__ = ["graph_data"]


def graph_data(graph: FusionGraph) -> dict[str, Any]:
    """Return the graph, ready for JSON, with the user's names; every result has its dtype and shape.

    Reading the result and writing it again gives the same.

    Args:
        graph: a graph as returned by a reader.

    Raises:
        AutofuseError: AF1104, a constant is an expression of sizes, which a graph file cannot hold.
    """
    return _Writer(graph).data()


class _Writer:
    """The names of one graph in its file."""

    def __init__(self, graph: FusionGraph) -> None:
        self.graph = graph
        symbols = _names([(s.name, s.label) for s in graph.symbols], is_symbol)
        self.symbols = symbols
        self.renamed = {n: sym(new) for n, new in symbols.items() if new != n}
        self.tensors = _names([(t, t) for t in graph.tensors], legal_name)
        self.nodes = _names([(n.name, n.label) for n in graph.nodes], legal_name)

    def data(self) -> dict[str, Any]:
        """Return the whole file."""
        g = self.graph
        return {
            "schema": SCHEMA,
            "name": g.label if legal_name(g.label) else g.name,
            "symbols": {
                self.symbols[s.name]: {"min": s.min, "max": s.max}
                | ({} if s.hint is None else {"hint": s.hint})
                for s in g.symbols
            },
            "inputs": [self.input(g.tensors[name]) for name in g.inputs],
            "nodes": [
                {
                    "name": self.nodes[n.name],
                    "op": n.op,
                    "inputs": [
                        self.constant(x, n.origin) if isinstance(x, Constant) else self.tensors[x]
                        for x in n.inputs
                    ],
                    "outputs": [self.result(g.tensors[x]) for x in n.outputs],
                }
                | ({"attrs": {k: self.attr(v) for k, v in n.attrs.items()}} if n.attrs else {})
                for n in g.nodes
            ],
            "outputs": [
                {"tensor": self.tensors[o.tensor]}
                | ({} if o.name == o.tensor else {"name": o.name})
                | ({} if o.inout is None else {"inout": self.tensors[o.inout]})
                for o in g.outputs
            ],
        }

    def size(self, e: Expr) -> int | str:
        """Return a size."""
        if e.is_const:
            return e.value
        return str(e.substitute(self.renamed) if self.renamed else e)

    def input(self, t: Tensor) -> dict[str, Any]:
        """Return an input."""
        out: dict[str, Any] = {"name": self.tensors[t.name], "dtype": t.dtype.name}
        out["shape"] = [self.size(e) for e in t.shape]
        if t.strides is not None:
            out["strides"] = [self.size(e) for e in t.strides]
        if t.offset is not None:
            out["offset"] = self.size(t.offset)
        return out | ({"scalar": True} if t.scalar else {})

    def result(self, t: Tensor) -> dict[str, Any]:
        """Return a result of a node, with dtype and shape."""
        shape = [self.size(e) for e in t.shape]
        return {"name": self.tensors[t.name], "dtype": t.dtype.name, "shape": shape}

    def constant(self, c: Constant, origin: str) -> dict[str, Any]:
        """Return a constant operand."""
        if c.expr is not None:
            text = f"a graph file cannot hold a constant with the expression {c.expr} of sizes"
            raise AutofuseError.of("AF1104", text, where=Where(pointer=origin))
        return {"const": _number(c.value)} | ({} if c.dtype is None else {"dtype": c.dtype.name})

    def attr(self, value: AttrValue) -> Any:
        """Return an attribute."""
        if isinstance(value, tuple):
            return [self.size(v) if isinstance(v, Expr) else _number(v) for v in value]
        return _number(value)


def _number(value: int | float | str | bool) -> int | float | str | bool:
    """Return a value as JSON; non-finite floats are texts."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _names(pairs: Collection[tuple[str, str]], legal: Callable[[str], bool]) -> dict[str, str]:
    """Return the name of each entity in the file: its label if that is legal and not taken.

    Args:
        pairs: distinct names with labels.
        legal: returns True for a word that a file may use.
    """
    uses = Counter(label for _, label in pairs)
    out: dict[str, str] = {}
    taken = {name for name, _ in pairs}
    for name, label in pairs:
        if label != name and legal(label) and label not in taken and uses[label] == 1:
            out[name] = label
        else:
            out[name] = name if legal(name) else identifier(name, taken)
        taken.add(out[name])
    return out
