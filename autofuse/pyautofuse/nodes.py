"""Nodes of a client's graph: what can be set on them, and nothing about what it means.

Clients write texts such as ``add.x1 = load.y`` and ``add.y.size = [s0, 64]``; attributes that no node has are refused
when they are set, everything else when the graph is scheduled, all findings together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

from autofuse.base.diagnostics import AutofuseError, Where

__all__ = ["IrAttributes", "OpOutput", "Operator", "source_of"]

#: Names of inputs: x, x1, x2, ...; what else ops call theirs.
_INPUT = re.compile(r"x\d*|mask|value|bias|offset_w|filter|index\Z", re.A)


class Owner(Protocol):
    """What a node needs of the graph that it is in."""

    def infer_dtype_of(self, node: Operator) -> None:
        """Set the element types of a node's outputs."""


class OpOutput:
    """One output of a node.

    Attributes:
        dtype: element type, one of ``ascir.dtypes``; None before it is set or inferred.
        axis: the axes along which it is laid out, outermost first.
        size: its size along each; 1 where it does not vary.
        strides: distance of neighbours along each, in elements.
        offset: of the first element, in elements; for Loads and Stores.
    """

    node: Operator
    index: int
    dtype: Any
    axis: Any
    size: Any
    strides: Any
    offset: Any

    _SETTABLE = ("dtype", "axis", "size", "strides", "offset")

    __slots__ = ("axis", "dtype", "index", "node", "offset", "size", "strides")

    def __init__(self, node: Operator, index: int) -> None:
        put = object.__setattr__
        put(self, "node", node)
        put(self, "index", index)
        for name in self._SETTABLE:
            put(self, name, None)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._SETTABLE:
            raise _no_attribute(self.node, f"{self.node.name}.y", name, self._SETTABLE)
        object.__setattr__(self, name, value)

    def __getitem__(self, index: int) -> OpOutput:
        return self.node.output(index)

    def __repr__(self) -> str:
        return f"{self.node.name}.y[{self.index}]"


class IrAttributes:
    """What depends on the kind of a node: ``index`` of a Data, ``value`` of a Scalar, ..."""

    values: dict[str, Any]

    __slots__ = ("values",)

    def __init__(self) -> None:
        object.__setattr__(self, "values", {})

    def __setattr__(self, name: str, value: Any) -> None:
        self.values[name] = value

    def __getattr__(self, name: str) -> Any:
        values = object.__getattribute__(self, "values")
        if name not in values:
            raise AttributeError(f"the attribute {name!r} is not set")
        return values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)


class _Sched:
    """How the client would loop; ``axis`` are all axes of the node."""

    __slots__ = ("axis", "exec_order", "loop_axis")

    def __init__(self) -> None:
        self.axis: Any = None
        self.exec_order: Any = None
        self.loop_axis: Any = None


class _Attributes:
    """``node.attr``."""

    __slots__ = ("ir_attr", "sched")

    def __init__(self, ir_attr: IrAttributes) -> None:
        self.sched = _Sched()
        self.ir_attr = ir_attr


class Operator:
    """A node; ``ascir.ops.<Type>(name, graph)`` makes one and adds it to the graph.

    Attributes:
        name: its name in the graph.
        type: its op, as the client calls it.
        graph: the graph that it is in.
        attr: ``attr.sched.axis`` and ``attr.ir_attr``.
        inputs: name of an input -> what was assigned to it.
        subgraph: of an AscBackend, the graph that it runs.
    """

    name: str
    type: str
    graph: Owner
    attr: _Attributes
    ir_attr: IrAttributes
    inputs: dict[str, Any]
    outputs: dict[int, OpOutput]
    subgraph: Any

    __slots__ = ("attr", "graph", "inputs", "ir_attr", "name", "outputs", "subgraph", "type")

    def __init__(self, kind: str, name: str, graph: Owner, subgraph: Any = None) -> None:
        put = object.__setattr__
        put(self, "type", kind)
        put(self, "name", str(name))
        put(self, "graph", graph)
        put(self, "subgraph", subgraph)
        put(self, "inputs", {})
        put(self, "outputs", {})
        put(self, "ir_attr", IrAttributes())
        put(self, "attr", _Attributes(self.ir_attr))

    @property
    def y(self) -> OpOutput:
        """The first output; ``y[i]`` is output ``i``."""
        return self.output(0)

    def output(self, index: int) -> OpOutput:
        """Output ``index``."""
        if not isinstance(index, int) or index < 0:
            raise IndexError(f"{self.name}.y[{index!r}]")
        if index not in self.outputs:
            self.outputs[index] = OpOutput(self, index)
        return self.outputs[index]

    def infer_dtype(self) -> None:
        """Set the element type of the outputs from those of the inputs."""
        self.graph.infer_dtype_of(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if not _INPUT.fullmatch(name):
            raise _no_attribute(self, self.name, name, ("attr", "x", "x1", "x2", "x3", "y"))
        self.inputs[name] = value

    def __getattr__(self, name: str) -> Any:
        inputs = object.__getattribute__(self, "inputs")
        if name in inputs:
            return inputs[name]
        raise AttributeError(f"{self.name} ({self.type}) has no attribute or input {name!r}")

    def __repr__(self) -> str:
        return f"<{self.type} {self.name}>"


def source_of(value: object) -> OpOutput | None:
    """The output that an assignment to an input means: of a node by itself, its first one; None for anything else."""
    if isinstance(value, Operator):
        return value.y
    return value if isinstance(value, OpOutput) else None


def _no_attribute(node: Operator, what: str, name: str, known: tuple[str, ...]) -> Exception:
    return AutofuseError.of(
        "AF1102",
        f"{what} has no attribute {name!r}",
        where=Where(node=node.name),
        hint=f"known: {', '.join(known)}",
    )
