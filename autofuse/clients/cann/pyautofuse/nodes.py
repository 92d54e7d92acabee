"""Nodes of a client's graph and their attributes, without any semantics.

Clients write, for example, ``add.x1 = load.y`` and ``add.y.size = [s0, 64]``.  Setting an unknown attribute or a value
of the wrong type fails at once; all other errors are reported together when the graph is scheduled.  Attributes read
back in CANN's form: axes as ids, sizes as SizeExpr.
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

#: Names of inputs: x, x1, x2, ..., and op-specific ones.
_INPUT = re.compile(r"x\d*|mask|value|bias|offset_w|filter|index\Z", re.A)

#: Compute type as a client sets it -> as it reads it.
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
    """The part of a graph's interface that its nodes use."""

    operators: list[Operator]

    def infer_dtype_of(self, node: Operator) -> None:
        """Set the element types of a node's outputs."""


class OpOutput:
    """One output of a node.

    Attributes:
        dtype: element type, one of ``ascir.dtypes``; None before it is set or inferred.
        axis: the axes of its layout, outermost first; reads as their ids.
        size: its size along each axis; 1 if it does not vary.
        strides: stride along each axis, in elements.
        offset: offset of the first element, in elements; for Loads and Stores.
        given: the values of ``axis``, ``size`` and ``strides`` as they were set.
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
        """Ids of the axes; empty if unset."""
        return _ids(self.given.get("axis", ()))

    @property
    def size(self) -> list[SizeExpr]:
        """The sizes; empty if unset."""
        return [SizeExpr(v) for v in self.given.get("size", ())]

    @property
    def strides(self) -> list[SizeExpr]:
        """The strides; empty if unset."""
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
            text = f"{what}: {value!r} is not an element type"
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
    """``compute_type``: the client's classification of the node.  Ignored in favour of the op's own."""

    __slots__ = ("_compute_type",)

    def __init__(self) -> None:
        self._compute_type = "unknown"

    @property
    def compute_type(self) -> str:
        """``load``, ``elewise``, ``reduce``, ...; ``unknown`` if unset."""
        return self._compute_type

    @compute_type.setter
    def compute_type(self, value: str) -> None:
        found = _COMPUTE_TYPES.get(value) if isinstance(value, str) else None
        if found is None:
            text = f"attr.api.compute_type: {value!r} is not a kind of computation"
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

    Without a graph, it joins the graph of the first node that it is linked to, in either direction.

    Attributes:
        name: its name in the graph.
        type: its op, as the client calls it.
        graph: its graph; None until it joins one.
        attr: ``attr.sched.axis``, ``attr.api.compute_type`` and ``attr.ir_attr``.
        inputs: name of an input -> the value assigned to it.
        subgraph: the graph that an AscBackend runs.
        count: number of outputs, if the client specified it.
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
        """The first output, with ``y[i]`` output ``i``; a list of outputs if their number was specified."""
        if self.count is None:
            return self.output(0)
        return [self.output(k) for k in range(self.count)]

    def output(self, index: int) -> OpOutput:
        """Return output ``index``."""
        if not isinstance(index, int) or index < 0:
            raise IndexError(f"{self.name}.y[{index!r}]")
        if index not in self.outputs:
            self.outputs[index] = OpOutput(self, index)
        return self.outputs[index]

    def sources(self) -> list[OpOutput]:
        """The node outputs assigned to its inputs."""
        return [s for value in self.inputs.values() for s in sources_of(value)]

    def infer_dtype(self) -> None:
        """Infer the element types of the outputs from the inputs.

        Raises:
            ClientTypeError: AF1101, the node is not in a graph yet.
        """
        if self.graph is None:
            text = f"{self.name} ({self.type}) is not in a graph yet"
            words = f"node {self.name} {self.type} need set input before call infer dype"
            raise ClientTypeError.of("AF1101", text, hint="set its inputs first").worded(words)
        self.graph.infer_dtype_of(self)

    def _linked(self, source: Operator) -> None:
        """Link this node to its input ``source``: once either is in a graph, both are."""
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
    """Return the output meant by a value assigned to an input: a bare node means its first; None for anything else."""
    if isinstance(value, Operator):
        return value.output(0)
    return value if isinstance(value, OpOutput) else None


def sources_of(value: object) -> list[OpOutput]:
    """Return the outputs meant by a value assigned to an input."""
    values = value if isinstance(value, list | tuple) else [value]
    return [s for v in values if (s := source_of(v)) is not None]


def _ids(axes: Sequence[Axis]) -> list[int]:
    return [a.id for a in axes]


def _axes(value: object, what: str) -> list[Axis]:
    for i, axis in enumerate(_items(value, what)):
        if not isinstance(axis, Axis):
            text = f"{what}[{i}]: {axis!r} is not an axis"
            raise ClientValueError.of("AF1103", text, hint="create one with create_axis")
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
        raise ClientTypeError.of("AF1103", f"{what}: {value!r} is not a list")
    return list(value)


def _no_attribute(node: Operator, what: str, name: str, known: tuple[str, ...]) -> Exception:
    return ClientAttributeError.of(
        "AF1102",
        f"{what} has no attribute {name!r}",
        where=Where(node=node.name),
        hint=f"known: {', '.join(known)}",
    )
