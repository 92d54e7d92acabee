"""FusionGraph, the user's graph: tensor-level ops on symbolic shapes, before any loop exists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from autofuse.base.wording import Wording
from autofuse.implgraph.expr.expression import Expr, sym
from autofuse.implgraph.ir.dtypes import DType

__all__ = [
    "AttrValue",
    "Constant",
    "FusionGraph",
    "FusionNode",
    "GraphOutput",
    "Operand",
    "Symbol",
    "Tensor",
    "in_labels",
    "tensors_by_origin",
]

T = TypeVar("T")
AttrValue: TypeAlias = "int | float | str | bool | tuple[int | float | str | bool | Expr, ...]"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size known only at run time: ``min <= value <= max``; ``hint`` is a typical value."""

    name: str
    min: int = 1
    max: int = 1 << 31
    hint: int | None = None
    called: str = ""

    @property
    def label(self) -> str:
        """The name shown to users, as in the file; ``name`` is its C++ identifier."""
        return self.called or self.name

    @property
    def typical(self) -> int:
        """The hint, or 1024 if it has none, within the range."""
        return min(max(1024 if self.hint is None else self.hint, self.min), self.max)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the graph.

    Attributes:
        shape: sizes, outermost first; ``()`` for a 0-d tensor.
        strides: GM strides in elements, one per dimension; None for contiguous.
        offset: GM offset of the first element, in elements.
        scalar: True for a run-time scalar: one value, passed by pointer like a one-element tensor.
        origin: JSON pointer of the definition.
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...] | None = None
    offset: Expr | None = None
    scalar: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """An inline 0-d constant operand.  With ``dtype`` None it takes the dtype of the other operand.

    ``expr``: the constant is this expression of the graph's symbols, and ``value`` is ignored; such constants come from
    rewriting, not from users, and have a dtype.
    """

    value: int | float | bool
    dtype: DType | None = None
    expr: Expr | None = None


Operand: TypeAlias = str | Constant


@dataclass(frozen=True, slots=True)
class FusionNode:
    """One op.  ``op`` is a registry name; ``inputs`` name tensors or are constants; one or more outputs."""

    name: str
    op: str
    inputs: tuple[Operand, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    origin: str = ""
    called: str = ""

    @property
    def label(self) -> str:
        """The name shown to users; ``name`` is an identifier for it."""
        return self.called or self.name


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """An output of a graph.

    ``name`` is the parameter's name; ``tensor`` names the tensor written to it (an input of the graph is allowed: a
    copy); ``inout`` names the input whose memory this output overwrites, or None.
    """

    name: str
    tensor: str
    inout: str | None = None


@dataclass(frozen=True, slots=True)
class FusionGraph:
    """A group of ops that becomes one kernel, as returned by :func:`autofuse.read`.  Immutable; compared by value.

    Attributes:
        name: name of the kernel, a legal C identifier.
        symbols: sizes known only at run time: name, min, max, hint, in elements.
        inputs: names of the input tensors, in the order of the kernel's parameters.
        nodes: the ops in topological order.
        outputs: for each, the parameter's name, the tensor written to it, and the input that it overwrites, or None.
        tensors: every named tensor, inputs and results, with dtype, shape, and strides and offset in elements;
            constants have no entry.
        called: the original name, if it differs from ``name``.
    """

    name: str
    symbols: tuple[Symbol, ...]
    inputs: tuple[str, ...]
    nodes: tuple[FusionNode, ...]
    outputs: tuple[GraphOutput, ...]
    tensors: Mapping[str, Tensor]
    called: str = ""

    @property
    def label(self) -> str:
        """The name shown to users; ``name`` is an identifier for it."""
        return self.called or self.name

    def symbol_labels(self) -> dict[str, str]:
        """Return the names of symbols as shown to users, by identifier."""
        return {s.name: s.label for s in self.symbols}

    def in_words(self, thing: object) -> str:
        """Return a size, a shape or a message with the names shown to users; any other object as its string."""
        if isinstance(thing, Wording):
            return thing.named(self.in_words)
        place = getattr(thing, "origin", None)
        if isinstance(place, str) and place:
            return tensors_by_origin(self).get(place, str(getattr(thing, "name", thing)))
        if isinstance(thing, str):
            return self.label if thing == self.name else thing
        return str(in_labels(getattr(thing, "name", thing), self.symbols))

    def symbol_ranges(self) -> dict[str, tuple[int, int]]:
        """Return the closed range of every symbol, by name."""
        return {s.name: (s.min, s.max) for s in self.symbols}


def in_labels(thing: T, symbols: Collection[Symbol]) -> T:
    """Return sizes, or a tuple or dict of them, with symbol names as shown to users; any other object as it is."""
    if not any(s.called for s in symbols):
        return thing
    if isinstance(thing, Expr):
        return thing.substitute({s.name: sym(s.label) for s in symbols})  # type: ignore[return-value]
    if isinstance(thing, tuple):
        return tuple(in_labels(x, symbols) for x in thing)  # type: ignore[return-value]
    if isinstance(thing, Mapping):
        return {k: in_labels(x, symbols) for k, x in thing.items()}  # type: ignore[return-value]
    return thing


def tensors_by_origin(graph: FusionGraph) -> dict[str, str]:
    """Return the tensor that each place of the definition concerns, by JSON pointer."""
    found = {t.origin: t.name for t in graph.tensors.values() if t.origin}
    found |= {n.origin: n.outputs[0] for n in graph.nodes if n.origin}
    return found | {f"/outputs/{k}": o.name for k, o in enumerate(graph.outputs)}
