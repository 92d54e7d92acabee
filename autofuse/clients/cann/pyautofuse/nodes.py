"""Nodes of a client's graph: what can be set on them, and nothing about what it means.

Clients write texts such as ``add.x1 = load.y`` and ``add.y.size = [s0, 64]``; attributes that no node has, and values
of the wrong type, are refused when they are set, everything else when the graph is scheduled, all findings together.
What is read back has the form that it has in CANN: ids of axes, and sizes as SizeExpr.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from autofuse.base.diagnostics import Where
from autofuse.clients.cann.pyautofuse.errors import (
    ClientAttributeError,
    ClientTypeError,
    ClientValueError,
)
from autofuse.clients.cann.pyautofuse.foreign import ForeignType
from autofuse.clients.cann.pyautofuse.sizes import Axis, SizeExpr, size_of
from autofuse.implgraph.ir.dtypes import DType

__all__ = [
    "ApiInfo",
    "AscNodeAttr",
    "IrAttributes",
    "OpOutput",
    "Operator",
    "SchedInfo",
    "source_of",
    "sources_of",
]

#: Names of inputs: x, x1, x2, ...; what else ops call theirs.
_INPUT = re.compile(r"x\d*|mask|value|bias|offset_w|filter|index\Z", re.A)

#: Kinds of computation as a client sets them -> as it reads them.
_COMPUTE_TYPES = {
    "elemwise": "elewise",
    **{
        k: k
        for k in (
            "load",
            "store",
            "elewise",
            "broadcast",
            "reduce",
            "transpose",
            "concat",
            "gather",
            "split",
            "cube",
        )
    },
}


class Owner(Protocol):
    """Interface of a graph that its nodes use."""

    operators: list[Operator]

    def infer_dtype_of(self, node: Operator) -> None:
        """Set the element types of a node's outputs."""


class OpOutput:
    """One output of a node.

    Attributes:
        dtype: element type, one of ``ascir.dtypes``; None before it is set or inferred.
        axis: the axes along which it is laid out, outermost first; reads as their ids.
        size: its size along each; 1 where it does not vary.
        strides: distance of neighbours along each, in elements.
        offset: of the first element, in elements; for Loads and Stores.
        given: what was set of ``axis``, ``size`` and ``strides``, as it was set.
    """

    node: Operator
    index: int
    dtype: Any
    offset: Any
    given: dict[str, list[Any]]

    _SETTABLE = ("dtype", "axis", "size", "strides", "offset")

    __slots__ = ("dtype", "given", "index", "node", "offset")

    def __init__(self, node: Operator, index: int) -> None:
        put = object.__setattr__
        put(self, "node", node)
        put(self, "index", index)
        put(self, "given", {})
        put(self, "dtype", None)
        put(self, "offset", None)

    @property
    def axis(self) -> list[int]:
        """Ids of the axes; empty where none are set."""
        return _ids(self.given.get("axis", ()))

    @property
    def size(self) -> list[SizeExpr]:
        """The sizes; empty where none are set."""
        return [SizeExpr(v) for v in self.given.get("size", ())]

    @property
    def strides(self) -> list[SizeExpr]:
        """The strides; empty where none are set."""
        return [SizeExpr(v) for v in self.given.get("strides", ())]

    def __setattr__(self, name: str, value: Any) -> None:
        what = f"{self.node.name}.y.{name}"
        if name not in self._SETTABLE:
            raise _no_attribute(self.node, f"{self.node.name}.y", name, self._SETTABLE)
        if name == "axis":
            self.given[name] = _axes(value, what)
        elif name in ("size", "strides"):
            self.given[name] = _size_list(value, what)
        elif name == "dtype" and not isinstance(value, DType | ForeignType | None):
            text = f"{what}: {value!r} is no element type"
            raise ClientTypeError.of("AF1103", text, hint="one of ascir.dtypes")
        else:
            object.__setattr__(self, name, value)

    def __getitem__(self, index: int) -> OpOutput:
        return self.node.output(index)

    def __repr__(self) -> str:
        return f"{self.node.name}.y[{self.index}]"


class IrAttributes:
    """Attributes specific to the kind of a node: ``index`` of a Data, ``value`` of a Scalar, ..."""

    values: dict[str, Any]

    __slots__ = ("values",)

    def __init__(self) -> None:
        object.__setattr__(self, "values", {})

    def __setattr__(self, name: str, value: Any) -> None:
        self.values[name] = SizeExpr(size_of(value, name)) if name == "offset" else value

    def __getattr__(self, name: str) -> Any:
        values = object.__getattribute__(self, "values")
        if name not in values:
            raise AttributeError(f"the attribute {name!r} is not set")
        return values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)


class SchedInfo:
    """Loops that the client proposes; ``axis`` takes all axes of the node and reads as their ids."""

    __slots__ = ("axes", "exec_order", "loop_axis")

    def __init__(self) -> None:
        self.axes: list[Axis] = []
        self.exec_order: Any = None
        self.loop_axis: Any = None

    @property
    def axis(self) -> list[int]:
        """Ids of the axes."""
        return _ids(self.axes)

    @axis.setter
    def axis(self, value: Sequence[Axis]) -> None:
        self.axes = _axes(value, "attr.sched.axis")


class ApiInfo:
    """``compute_type``: what kind of computation the client takes the node for.  The op says it, too, and decides."""

    __slots__ = ("_compute_type",)

    def __init__(self) -> None:
        self._compute_type = "unknown"

    @property
    def compute_type(self) -> str:
        """``load``, ``elewise``, ``reduce``, ...; ``unknown`` where none is set."""
        return self._compute_type

    @compute_type.setter
    def compute_type(self, value: str) -> None:
        found = _COMPUTE_TYPES.get(value) if isinstance(value, str) else None
        if found is None:
            text = f"attr.api.compute_type: {value!r} is no kind of computation"
            raise ClientValueError.of("AF1104", text, hint=", ".join(_COMPUTE_TYPES))
        self._compute_type = found


class AscNodeAttr:
    """``node.attr``."""

    __slots__ = ("api", "ir_attr", "sched")

    def __init__(self, ir_attr: IrAttributes) -> None:
        self.api = ApiInfo()
        self.sched = SchedInfo()
        self.ir_attr = ir_attr


class Operator:
    """A node; ``ascir.ops.<Type>(name, graph)`` makes one and adds it to the graph.

    Without a graph, it goes into that of the first node with one that it is linked to, whichever way round.

    Attributes:
        name: its name in the graph.
        type: its op, as the client calls it.
        graph: the graph that it is in; None before it is in one.
        attr: ``attr.sched.axis``, ``attr.api.compute_type`` and ``attr.ir_attr``.
        inputs: name of an input -> what was assigned to it.
        subgraph: of an AscBackend, the graph that it runs.
        count: number of outputs, where the client said it.
    """

    name: str
    type: str
    graph: Owner | None
    attr: AscNodeAttr
    ir_attr: IrAttributes
    inputs: dict[str, Any]
    outputs: dict[int, OpOutput]
    subgraph: Any
    count: int | None
    waiting: list[Operator]

    __slots__ = (
        "attr",
        "count",
        "graph",
        "inputs",
        "ir_attr",
        "name",
        "outputs",
        "subgraph",
        "type",
        "waiting",
    )

    def __init__(
        self,
        kind: str,
        name: str,
        graph: Owner | None = None,
        subgraph: Any = None,
        count: int | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "type", kind)
        put(self, "name", str(name))
        put(self, "graph", None)
        put(self, "subgraph", subgraph)
        put(self, "count", count)
        put(self, "inputs", {})
        put(self, "outputs", {})
        put(self, "waiting", [])
        put(self, "ir_attr", IrAttributes())
        put(self, "attr", AscNodeAttr(self.ir_attr))
        if graph is not None:
            self._join(graph)

    @property
    def y(self) -> Any:
        """The first output, and ``y[i]`` output ``i``; of a node whose number of outputs was said, a list of them."""
        if self.count is None:
            return self.output(0)
        return [self.output(k) for k in range(self.count)]

    def output(self, index: int) -> OpOutput:
        """Output ``index``."""
        if not isinstance(index, int) or index < 0:
            raise IndexError(f"{self.name}.y[{index!r}]")
        if index not in self.outputs:
            self.outputs[index] = OpOutput(self, index)
        return self.outputs[index]

    def sources(self) -> list[OpOutput]:
        """The outputs of nodes that its inputs were assigned."""
        return [s for value in self.inputs.values() for s in sources_of(value)]

    def infer_dtype(self) -> None:
        """Set the element type of the outputs from those of the inputs.

        Raises:
            ClientTypeError: AF1101, the node is in no graph yet.
        """
        if self.graph is None:
            text = f"{self.name} ({self.type}) is in no graph yet"
            words = f"node {self.name} {self.type} need set input before call infer dype"
            raise ClientTypeError.of("AF1101", text, hint="set its inputs first").worded(words)
        self.graph.infer_dtype_of(self)

    def _linked(self, source: Operator) -> None:
        """This node takes what ``source`` makes: both are in one graph, as soon as either is in one."""
        if self.graph is None and source.graph is not None:
            self._join(source.graph)
        elif self.graph is not None and source.graph is None:
            source._join(self.graph)
        elif self.graph is None:
            self.waiting.append(source)
            source.waiting.append(self)

    def _join(self, graph: Owner) -> None:
        stack = [self]
        while stack:
            node = stack.pop()
            if node.graph is None:
                object.__setattr__(node, "graph", graph)
                graph.operators.append(node)
                stack += reversed(node.waiting)
                node.waiting.clear()

    def __setattr__(self, name: str, value: Any) -> None:
        if not _INPUT.fullmatch(name):
            raise _no_attribute(self, self.name, name, ("attr", "x", "x1", "x2", "x3", "y"))
        self.inputs[name] = value
        for source in sources_of(value):
            self._linked(source.node)

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
        return value.output(0)
    return value if isinstance(value, OpOutput) else None


def sources_of(value: object) -> list[OpOutput]:
    """The outputs that an assignment to an input means."""
    values = value if isinstance(value, list | tuple) else [value]
    return [s for v in values if (s := source_of(v)) is not None]


def _ids(axes: Sequence[Axis]) -> list[int]:
    return [a.id for a in axes]


def _axes(value: object, what: str) -> list[Axis]:
    for i, axis in enumerate(_items(value, what)):
        if not isinstance(axis, Axis):
            text = f"{what}[{i}]: {axis!r} is no axis"
            raise ClientValueError.of("AF1103", text, hint="create_axis makes one")
    return _items(value, what)


def _size_list(value: object, what: str) -> list[Any]:
    items = _items(value, what)
    try:
        for i, item in enumerate(items):
            size_of(item, f"{what}[{i}]")
    except ClientTypeError as e:
        raise ClientValueError(e.diagnostics) from None
    return items


def _items(value: object, what: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ClientTypeError.of("AF1103", f"{what}: {value!r} is no list")
    return list(value)


def _no_attribute(node: Operator, what: str, name: str, known: tuple[str, ...]) -> Exception:
    return ClientAttributeError.of(
        "AF1102",
        f"{what} has no attribute {name!r}",
        where=Where(node=node.name),
        hint=f"known: {', '.join(known)}",
    )
