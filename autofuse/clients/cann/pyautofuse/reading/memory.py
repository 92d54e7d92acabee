"""Reader of a HintGraph: code common to all nodes, and the nodes that represent memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.clients.cann.pyautofuse.cann_ops import CannOp, find_op, suggest_op
from autofuse.clients.cann.pyautofuse.dtype_rules import outside
from autofuse.clients.cann.pyautofuse.foreign import ForeignType
from autofuse.clients.cann.pyautofuse.graphs import HintGraph
from autofuse.clients.cann.pyautofuse.nodes import Operator, source_of
from autofuse.clients.cann.pyautofuse.reading.emission import Emission, Value
from autofuse.clients.cann.pyautofuse.reading.views import (
    Place,
    Stored,
    apart,
    memory_order,
    view_of,
)
from autofuse.clients.cann.pyautofuse.sizes import Axis, size_of
from autofuse.frontends.builder import MAX_RANK, Shape, topological_order
from autofuse.frontends.layout import contiguous
from autofuse.implgraph.expr.expression import ZERO, Expr
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import Tensor
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.rules import broadcast_shapes

__all__ = ["Buffer", "HiddenError", "Layout", "MemoryReader", "Result"]


@dataclass(slots=True)
class Buffer:
    """Memory that a graph reads or writes.

    Attributes:
        name: name of the client's node.
        index: index of the client's parameter for an input; -1 for a buffer that a graph writes.
        dtype: its element type, once a graph sets it.
        views: for an input, one tensor per layout in which it is loaded.
        stored: the tensor written to it.
        place: for an output, the Store's graph number and its position in the client's text.
        axes: axes of the Store, in the order of its sizes.
    """

    name: str
    index: int
    dtype: DType | None = None
    views: dict[Place, Tensor] = field(default_factory=dict)
    stored: Stored | None = None
    place: tuple[int, int] = (0, 0)
    axes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout set on an output, in the symbols of the kernel; None for unset fields."""

    axes: tuple[int, ...] | None
    sizes: Shape | None
    strides: Shape | None
    offset: Expr | None


@dataclass(frozen=True, slots=True)
class Result:
    """A value and the axes of its dimensions; a constant has none and fits any axes."""

    value: Value
    axes: tuple[int, ...] = ()


class HiddenError(Exception):
    """An input of the node is in error: report nothing further for this node."""


class MemoryReader(ABC):
    """Reads the nodes of ``hint`` into ``emission``.

    Args:
        emission: the graph so far.
        hint: the client's graph.
        reads: its input buffers, by the index of the Data nodes.
        writes: its output buffers, by the index of the Output nodes.
        substitution: the client's symbols -> those of the kernel.
        number: position of the graph in execution order.

    Attributes:
        findings: the errors found.
        load_axes: input of ``emission`` -> (graph number, axes) of each load.
        last_use: input of ``emission`` -> (graph number, position in its text) of the last node that uses it.
    """

    def __init__(
        self,
        emission: Emission,
        hint: HintGraph,
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
        substitution: Mapping[str, Expr],
        number: int = 0,
    ) -> None:
        self.number = number
        self.last_use: dict[str, tuple[int, int]] = {}
        self.load_axes: dict[str, set[tuple[int, tuple[int, ...]]]] = {}
        self.text_place = {id(n): i for i, n in enumerate(hint.operators)}
        self.emission = emission
        self.hint = hint
        self.reads = reads
        self.writes = writes
        self.substitution = substitution
        self.findings: list[Diagnostic] = []
        self.results: dict[int, Result] = {}
        self.memory: dict[int, Buffer] = {}
        self.axis_ids = {id(a): a.id for a in hint.axes}

    def read(self) -> None:
        """Read all nodes, and append errors to ``findings``."""
        nodes = self.hint.operators
        position = {id(n): i for i, n in enumerate(nodes)}
        edges = [
            [position[id(s.node)] for s in n.sources() if id(s.node) in position] for n in nodes
        ]
        order, stuck = topological_order(edges)
        if stuck:
            self._note("AF1206", "the nodes form a cycle", nodes[stuck[0]].name)
        names: set[str] = set()
        for n in nodes:
            if n.name in names:
                self._note("AF1106", f"two nodes are called {n.name}", n.name)
            names.add(n.name)
        for i in order:
            self._node(nodes[i])

    def _node(self, n: Operator) -> None:
        self.emission.node = n.name
        try:
            row = find_op(n.type)
            if row is None:
                close = suggest_op(n.type)
                raise self.emission.error(
                    "AF1201",
                    f"the op {n.type!r} is not supported",
                    f"did you mean {close!r}?"
                    if close and close != n.type
                    else "docs/clients.md lists the ops",
                )
            if isinstance(n.y.dtype, ForeignType):
                raise self.emission.error(
                    "AF1203", f"{n.y.dtype} is not a type that kernels support"
                )
            self._check_attrs(n, row)
            self.read_node(n, row)
        except AutofuseError as e:
            self.findings += e.diagnostics
        except HiddenError:
            pass

    def _note(self, code: str, text: str, node: str) -> None:
        self.findings.append(Diagnostic(code, text, Where(node=node)))

    def _check_attrs(self, n: Operator, row: CannOp) -> None:
        for name in n.ir_attr:
            if name not in row.attrs:
                known = ", ".join(row.attrs) or "none"
                raise self.emission.error(
                    "AF1205", f"{n.type} has no attribute {name!r}", f"its attributes are: {known}"
                )
        for name in n.inputs:
            if name not in row.inputs:
                raise self.emission.error(
                    "AF1202",
                    f"{n.type} has no input {name!r}",
                    f"its inputs are: {', '.join(row.inputs) or 'none'}",
                )
        for k in n.outputs:
            if k > 0:
                raise self.emission.error("AF1202", f"{n.type} has one output, not y[{k}]")

    # attributes of nodes ----------------------------------------------------------------------

    def _layout(self, n: Operator) -> Layout:
        y = n.y
        given = y.given.get("axis")
        axes = None if given is None else tuple(self._axis(a) for a in given)
        sizes = self._sizes(y.given.get("size"), "y.size")
        strides = self._sizes(y.given.get("strides"), "y.strides")
        counts = {len(x) for x in (axes, sizes, strides) if x is not None}
        if len(counts) > 1:
            raise self.emission.error(
                "AF1204",
                f"y has {_count(axes)} axes, {_count(sizes)} sizes and {_count(strides)} strides",
            )
        if counts and max(counts) > MAX_RANK:
            text = f"y has {max(counts)} axes; at most {MAX_RANK} are allowed"
            raise self.emission.error("AF1109", text)
        offset = None if y.offset is None else self._size(y.offset, "y.offset")
        return Layout(axes, sizes, strides, offset)

    def _axis(self, axis: Axis) -> int:
        found = self.axis_ids.get(id(axis))
        if found is None:
            text = f"{axis.name!r} is not an axis of {self.hint.name}"
            raise self.emission.error("AF1103", text, "create one with create_axis")
        return found

    def _size(self, value: object, what: str) -> Expr:
        e = size_of(value, f"{self.emission.node}.{what}")
        unknown = sorted(e.symbols() - set(self.substitution))
        if unknown:
            raise self.emission.error(
                "AF1107",
                f"the size {unknown[0]!r} in {what} was not created by a graph",
                "create_size",
            )
        return e.substitute(self.substitution)

    def _sizes(self, values: Sequence[object] | None, what: str) -> Shape | None:
        return None if values is None else tuple(self._size(v, what) for v in values)

    def _result(self, n: Operator, name: str) -> Result:
        source = source_of(n.inputs.get(name))
        if source is None:
            if n.inputs.get(name) is not None:
                text = f"the input {name!r} is {n.inputs[name]!r}, which is not an output of a node"
                raise self.emission.error("AF1103", text)
            raise self.emission.error("AF1202", f"{n.type} needs the input {name!r}")
        found = self.results.get(id(source.node))
        if found is not None and source.index == 0:
            self._used(n, found)
            return found
        if source.node.graph is not self.hint:
            text = f"the input {name!r} is {source} of another graph"
            raise self.emission.error("AF1107", text)
        if id(source.node) in self.memory or source.index > 0:
            text = f"the input {name!r} is {source}, which is not a value in UB"
            raise self.emission.error("AF1301", text, "a Load is needed in between")
        raise HiddenError

    def _used(self, n: Operator, found: Result) -> None:
        """Record the position in the client's text where an input is used."""
        if isinstance(found.value, Tensor):
            place = (self.number, self.text_place[id(n)])
            before = self.last_use.get(found.value.name, place)
            self.last_use[found.value.name] = max(before, place)

    # memory -----------------------------------------------------------------------------------

    def _data(self, n: Operator, row: CannOp) -> None:
        buffer = self._numbered(n, self.reads, "Data")
        if n.y.dtype is None:
            raise self.emission.error("AF1101", "the element type of Data is not set", "y.dtype")
        if buffer.dtype not in (None, n.y.dtype):
            text = f"{buffer.name} is {buffer.dtype} elsewhere, but {n.y.dtype} here"
            raise self.emission.error("AF1203", text)
        buffer.dtype = n.y.dtype
        self.memory[id(n)] = buffer

    def _numbered(self, n: Operator, buffers: Sequence[Buffer], kind: str) -> Buffer:
        same = [m for m in self.hint.operators if m.type == kind]
        index = n.ir_attr.values.get("index", same.index(n))
        if not isinstance(index, int) or not 0 <= index < len(buffers):
            text = f"the index {index!r} of {kind} is not in 0 to {len(buffers) - 1}"
            raise self.emission.error("AF1205", text)
        if any(m is not n and m.ir_attr.values.get("index") == index for m in same):
            text = f"two {kind} nodes of {self.hint.name} have the index {index}"
            raise self.emission.error("AF1205", text)
        return buffers[index]

    def _place(self, n: Operator) -> tuple[Place, tuple[int, ...]]:
        layout = self._layout(n)
        if layout.axes is None or layout.sizes is None:
            raise self.emission.error("AF1101", f"y.axis and y.size of {n.type} are not set")
        strides = layout.strides or contiguous(layout.sizes)
        own = n.ir_attr.values.get("offset")
        offset = layout.offset
        if own is not None:
            said = self._size(own, "attr.ir_attr.offset")
            if offset is not None and offset != said:
                text = f"the offset is {said} in ir_attr, but {offset} in y"
                raise self.emission.error("AF1205", text)
            offset = said
        return Place(layout.sizes, strides, ZERO if offset is None else offset), layout.axes

    def _load(self, n: Operator, row: CannOp) -> None:
        source = source_of(n.inputs.get("x"))
        if source is None:
            raise self.emission.error("AF1202", "Load needs the input 'x'")
        buffer = self.memory.get(id(source.node))
        if buffer is None:
            if source.node.type in ("Data", "Workspace"):
                raise HiddenError
            raise self.emission.error(
                "AF1301", f"it loads from {source}, which is neither Data nor Workspace"
            )
        place, axes = self._place(n)
        tensor = self._in_memory(buffer, place, axes)
        self._declared(n, tensor.dtype)
        self.results[id(n)] = Result(tensor, axes)

    def _in_memory(self, buffer: Buffer, place: Place, axes: tuple[int, ...]) -> Tensor:
        """Return the tensor at a place of a buffer; for an input, record the ``axes`` of the load."""
        if buffer.stored is not None:
            return view_of(self.emission, buffer.stored, place)
        if buffer.index < 0:
            raise self.emission.error(
                "AF1107", f"nothing is stored to {buffer.name} before this node"
            )
        tensor = self._view(buffer, place)
        self.load_axes.setdefault(tensor.name, set()).add((self.number, axes))
        return tensor

    def _operand(self, n: Operator, name: str) -> Result:
        """Return an input that may be memory (a Data with its own layout) or a value."""
        source = source_of(n.inputs.get(name))
        buffer = None if source is None else self.memory.get(id(source.node))
        if source is None or buffer is None or source.node.type not in ("Data", "Workspace"):
            return self._result(n, name)
        place, axes = self._place(source.node)
        # (-1,) matches the axes of no Store: an output written over this buffer would change later reads.
        found = Result(self._in_memory(buffer, place, (-1,)), axes)
        self._used(n, found)
        return found

    def _view(self, buffer: Buffer, place: Place) -> Tensor:
        place = place.normal()
        found = buffer.views.get(place)
        if found is None:
            assert buffer.dtype is not None
            strides = None if place.dense else place.strides
            offset = None if place.offset == 0 else place.offset
            found = self.emission.parameter(
                f"in{buffer.index}", buffer.dtype, place.sizes, strides, offset
            )
            buffer.views[place] = found
        return found

    def _store(self, n: Operator, row: CannOp) -> None:
        e = self.emission
        x = self._result(n, "x")
        place, axes = self._place(n)
        value = self._outside(x.value)
        tensor = self._fitted(n, Result(value, x.axes), axes, place.sizes)
        order = memory_order(place)
        place = Place(
            tuple(place.sizes[i] for i in order),
            tuple(place.strides[i] for i in order),
            place.offset,
        )
        if not apart(place):
            raise e.error(
                "AF1301",
                f"its strides [{', '.join(map(str, place.strides))}] with sizes "
                f"[{', '.join(map(str, place.sizes))}] may write an element twice",
            )
        self.memory[id(n)] = Buffer(n.name, -1, tensor.dtype)
        self.memory[id(n)].axes = tuple(axes[i] for i in order)
        self.memory[id(n)].stored = Stored(e.tensor(e.transpose(tensor, order)), place)

    def _stored(self, n: Operator) -> Stored:
        source = source_of(n.inputs.get("x"))
        if source is None:
            raise self.emission.error("AF1202", f"{n.type} needs the input 'x'")
        buffer = self.memory.get(id(source.node))
        if buffer is None or buffer.stored is None:
            if source.node.type == "Store":
                raise HiddenError
            raise self.emission.error("AF1301", f"its input {source} is not a Store")
        return buffer.stored

    def _output(self, n: Operator, row: CannOp) -> None:
        buffer = self._numbered(n, self.writes, "Output")
        stored = self._stored(n)
        self._declared(n, stored.tensor.dtype)
        buffer.stored, buffer.dtype = stored, stored.tensor.dtype
        source = source_of(n.inputs.get("x"))
        assert source is not None
        buffer.place = (self.number, self.text_place[id(source.node)])
        buffer.axes = self.memory[id(source.node)].axes

    def _workspace(self, n: Operator, row: CannOp) -> None:
        stored = self._stored(n)
        self._declared(n, stored.tensor.dtype)
        self.memory[id(n)] = Buffer(n.name, -1, stored.tensor.dtype, {}, stored)

    # shared ----------------------------------------------------------------------------------

    def _outside(self, value: Value) -> Value:
        """Convert a value to the client's memory format: bool to uint8."""
        return self.emission.cast(value, outside(self.emission.dtype(value)))

    def _declared(self, n: Operator, dtype: DType) -> None:
        if n.y.dtype is not None and outside(n.y.dtype) != outside(dtype):
            text = f"y.dtype is {n.y.dtype}, but {n.type} gives {outside(dtype)} here"
            raise self.emission.error("AF1207", text, "a Cast is needed")

    def _fitted(self, n: Operator, x: Result, axes: tuple[int, ...], sizes: Shape) -> Tensor:
        """Return the value with these axes and sizes."""
        if isinstance(x.value, Tensor):
            if x.axes != axes:
                raise self.emission.error(
                    "AF1301",
                    f"the axes of y are {self._names(axes)}, but those of its input are {self._names(x.axes)}",
                    "only Transpose changes the order of axes",
                )
            if not _spreads(x.value.shape, sizes):
                shape = ", ".join(map(str, x.value.shape))
                want = ", ".join(map(str, sizes))
                text = f"the sizes of y are [{want}], but those of its input are [{shape}]"
                raise self.emission.error("AF1204", text)
        return self.emission.tensor(self.emission.broadcast(x.value, sizes))

    def _names(self, axes: tuple[int, ...]) -> str:
        return "(" + ", ".join(self.hint.axes[a].name for a in axes) + ")"

    @abstractmethod
    def read_node(self, n: Operator, row: CannOp) -> None:
        """Read one node."""


def _count(values: Sequence[object] | None) -> int:
    return 0 if values is None else len(values)


def _spreads(shape: Shape, sizes: Shape) -> bool:
    try:
        return broadcast_shapes([shape, sizes]) == sizes and len(shape) == len(sizes)
    except OpError:
        return False
