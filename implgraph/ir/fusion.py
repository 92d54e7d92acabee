"""FusionGraph: what a user writes.  Tensor-level ops on symbolic shapes, before any loop exists."""

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
    """A size that is known at run time only: ``min <= value <= max``; ``hint`` is a typical value."""

    name: str
    min: int = 1
    max: int = 1 << 31
    hint: int | None = None
    called: str = ""

    @property
    def label(self) -> str:
        """The name that users know it by: that of the file, of which ``name`` is an identifier in C++."""
        return self.called or self.name


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the graph.

    Attributes:
        shape: sizes, outermost first; ``()`` for a 0-d tensor.
        strides: GM strides in elements, one per dimension; None for contiguous.
        offset: GM offset of the first element, in elements.
        scalar: a run-time scalar: one value, passed by pointer like a tensor of one element.
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
    """An inline constant operand, 0-d.  ``dtype`` None: it takes the dtype of the other operand.

    ``expr``: the constant is this expression of the graph's symbols, and ``value`` means nothing; such constants come
    from rewriting, not from users, and have a dtype.
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
        """The name that users know it by; ``name`` is an identifier for it."""
        return self.called or self.name


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """An output of the graph.

    ``name`` is the parameter's name; ``tensor`` names the tensor that is written to it (an input of the graph is
    allowed: a copy); ``inout`` names the input whose memory this output overwrites, or None.
    """

    name: str
    tensor: str
    inout: str | None = None


@dataclass(frozen=True, slots=True)
class FusionGraph:
    """A group of ops that becomes one kernel: what :func:`autofuse.read` returns.  Immutable; it is compared by value.

    Attributes:
        name: of the kernel, a legal C identifier.
        symbols: sizes that are known at run time only: name, min, max, hint, in elements.
        inputs: names of tensors, in the order of the kernel's parameters.
        nodes: in topological order.
        outputs: name of the parameter, tensor that is written to it, and input that it overwrites, or None.
        tensors: every named tensor, inputs and results, with dtype, shape, and strides and offset in elements;
            constants have no entry.
        called: the name that it was given, where that is another one.
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
        """The name that users know it by; ``name`` is an identifier for it."""
        return self.called or self.name

    def symbol_labels(self) -> dict[str, str]:
        """The name that users know a symbol by, by its identifier."""
        return {s.name: s.label for s in self.symbols}

    def in_words(self, thing: object) -> str:
        """A size, a shape or a message with the names that users know things by; any other object as it prints."""
        if isinstance(thing, Wording):
            return thing.named(self.in_words)
        place = getattr(thing, "origin", None)
        if isinstance(place, str) and place:
            return tensors_by_origin(self).get(place, str(getattr(thing, "name", thing)))
        if isinstance(thing, str):
            return self.label if thing == self.name else thing
        return str(in_labels(getattr(thing, "name", thing), self.symbols))

    def symbol_ranges(self) -> dict[str, tuple[int, int]]:
        """Closed range of every symbol, by name."""
        return {s.name: (s.min, s.max) for s in self.symbols}


def in_labels(thing: T, symbols: Collection[Symbol]) -> T:
    """Sizes, or a tuple or a dict of them, with the names that users know symbols by; any other object as it is."""
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
    """The tensor that each place of the definition is about, by its JSON pointer."""
    found = {t.origin: t.name for t in graph.tensors.values() if t.origin}
    found |= {n.origin: n.outputs[0] for n in graph.nodes if n.origin}
    return found | {f"/outputs/{k}": o.name for k, o in enumerate(graph.outputs)}
