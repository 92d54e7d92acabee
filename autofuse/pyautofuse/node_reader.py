"""The nodes of one HintGraph, read into a FusionGraph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autofuse.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.frontends.builder import MAX_RANK, topological_order
from autofuse.implgraph.dtypes import BY_NAME, DType
from autofuse.implgraph.expr import ZERO, Expr
from autofuse.implgraph.fusion import Constant, Tensor
from autofuse.implgraph.infer import broadcast_shapes
from autofuse.implgraph.op_rules import truth_dtype
from autofuse.implgraph.ops import Attr, OpError
from autofuse.pyautofuse.cann_ops import CannOp, find_op, suggest_op
from autofuse.pyautofuse.dtype_rules import condition_inputs, outside
from autofuse.pyautofuse.emission import Emission, Shape, Value
from autofuse.pyautofuse.graphs import HintGraph
from autofuse.pyautofuse.memory_views import (
    Place,
    Stored,
    apart,
    contiguous,
    memory_order,
    view_of,
)
from autofuse.pyautofuse.nodes import Operator, OpOutput, source_of
from autofuse.pyautofuse.sizes import Axis, size_of

__all__ = ["Buffer", "NodeReader"]

_BOOL = BY_NAME["bool"]


@dataclass(slots=True)
class Buffer:
    """Memory that a graph reads or writes.

    Attributes:
        name: of the client's node.
        index: of the client's parameter for an input; -1 for what a graph writes.
        dtype: its element type, once a graph says it.
        views: for an input, one tensor per layout in which it is loaded.
        stored: what was written to it.
    """

    name: str
    index: int
    dtype: DType | None = None
    views: dict[Place, Tensor] = field(default_factory=dict)
    stored: Stored | None = None


@dataclass(frozen=True, slots=True)
class _Layout:
    """What is set on an output, in the symbols of the kernel; None where nothing is."""

    axes: tuple[int, ...] | None
    sizes: Shape | None
    strides: Shape | None
    offset: Expr | None


@dataclass(frozen=True, slots=True)
class _Result:
    """A value, and the axes of its dimensions; none for a constant, which fits any."""

    value: Value
    axes: tuple[int, ...] = ()


class _HiddenError(Exception):
    """The node needs one that is in error: nothing more is said about it."""


class NodeReader:
    """Reads the nodes of ``hint`` into ``emission``.

    Args:
        emission: the graph so far.
        hint: the client's graph.
        reads: its buffers by the index of its Data nodes.
        writes: the same of its Output nodes.
        substitution: the client's symbols -> those of the kernel.
    """

    def __init__(
        self,
        emission: Emission,
        hint: HintGraph,
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
        substitution: Mapping[str, Expr],
    ) -> None:
        self.emission = emission
        self.hint = hint
        self.reads = reads
        self.writes = writes
        self.substitution = substitution
        self.findings: list[Diagnostic] = []
        self.results: dict[int, _Result] = {}
        self.memory: dict[int, Buffer] = {}
        self.axis_ids = {id(a): a.id for a in hint.axes}

    def read(self) -> None:
        """Read all nodes; what is wrong with them goes to ``findings``."""
        nodes = self.hint.operators
        position = {id(n): i for i, n in enumerate(nodes)}
        edges = []
        for n in nodes:
            sources = [s for v in n.inputs.values() for s in _sources(v)]
            edges.append([position[id(s.node)] for s in sources if id(s.node) in position])
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
                    f"did you mean {close!r}?" if close and close != n.type else "docs/clients.md lists the ops",
                )
            self._check_attrs(n, row)
            _READERS[row.kind](self, n, row)
        except AutofuseError as e:
            self.findings += e.diagnostics
        except _HiddenError:
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

    # what nodes say ---------------------------------------------------------------------------

    def _layout(self, n: Operator) -> _Layout:
        y = n.y
        axes = None if y.axis is None else tuple(self._axis(a) for a in _list(y.axis))
        sizes = self._sizes(y.size, "y.size")
        strides = self._sizes(y.strides, "y.strides")
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
        return _Layout(axes, sizes, strides, offset)

    def _axis(self, axis: object) -> int:
        found = self.axis_ids.get(id(axis)) if isinstance(axis, Axis) else None
        if found is None:
            text = f"{getattr(axis, 'name', axis)!r} is no axis of {self.hint.name}"
            raise self.emission.error("AF1103", text, "create_axis makes one")
        return found

    def _size(self, value: object, what: str) -> Expr:
        e = size_of(value, f"{self.emission.node}.{what}")
        unknown = sorted(e.symbols() - set(self.substitution))
        if unknown:
            raise self.emission.error(
                "AF1107", f"the size {unknown[0]!r} in {what} is made by no graph", "create_size"
            )
        return e.substitute(self.substitution)

    def _sizes(self, values: object, what: str) -> Shape | None:
        if values is None:
            return None
        return tuple(self._size(v, what) for v in _list(values))

    def _result(self, n: Operator, name: str) -> _Result:
        source = source_of(n.inputs.get(name))
        if source is None:
            raise self.emission.error("AF1202", f"{n.type} needs the input {name!r}")
        found = self.results.get(id(source.node))
        if found is not None and source.index == 0:
            return found
        if source.node.graph is not self.hint:
            text = f"the input {name!r} is {source} of another graph"
            raise self.emission.error("AF1107", text)
        if id(source.node) in self.memory or source.index > 0:
            text = f"the input {name!r} is {source}, which is no value in UB"
            raise self.emission.error("AF1301", text, "a Load is needed in between")
        raise _HiddenError

    # memory -----------------------------------------------------------------------------------

    def _data(self, n: Operator, row: CannOp) -> None:
        buffer = self._numbered(n, self.reads, "Data")
        if n.y.dtype is None:
            raise self.emission.error("AF1101", "the element type of Data is not set", "y.dtype")
        if buffer.dtype not in (None, n.y.dtype):
            text = f"{buffer.name} is {buffer.dtype} elsewhere, and {n.y.dtype} here"
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
                text = f"the offset is {said} in ir_attr and {offset} in y"
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
                raise _HiddenError
            raise self.emission.error(
                "AF1301", f"it loads from {source}, which is neither Data nor Workspace"
            )
        place, axes = self._place(n)
        if buffer.stored is not None:
            tensor = view_of(self.emission, buffer.stored, place)
        elif buffer.index < 0:
            raise self.emission.error("AF1107", f"nothing is stored to {buffer.name} before")
        else:
            tensor = self._view(buffer, place)
        self._declared(n, tensor.dtype)
        self.results[id(n)] = _Result(tensor, axes)

    def _view(self, buffer: Buffer, place: Place) -> Tensor:
        place = place.normal()
        found = buffer.views.get(place)
        if found is None:
            assert buffer.dtype is not None
            strides = None if place.dense else place.strides
            offset = None if place.offset == 0 else place.offset
            found = self.emission.input(
                f"in{buffer.index}", buffer.dtype, place.sizes, strides, offset
            )
            buffer.views[place] = found
        return found

    def _store(self, n: Operator, row: CannOp) -> None:
        e = self.emission
        x = self._result(n, "x")
        place, axes = self._place(n)
        value = self._outside(x.value)
        tensor = self._fitted(n, _Result(value, x.axes), axes, place.sizes)
        order = memory_order(place)
        place = Place(
            tuple(place.sizes[i] for i in order), tuple(place.strides[i] for i in order), place.offset
        )
        if not apart(place):
            raise e.error(
                "AF1301",
                f"its strides [{', '.join(map(str, place.strides))}] with sizes "
                f"[{', '.join(map(str, place.sizes))}] may write an element twice",
            )
        self.memory[id(n)] = Buffer(n.name, -1, tensor.dtype)
        self.memory[id(n)].stored = Stored(e.transpose(tensor, order), place)

    def _stored(self, n: Operator) -> Stored:
        source = source_of(n.inputs.get("x"))
        if source is None:
            raise self.emission.error("AF1202", f"{n.type} needs the input 'x'")
        buffer = self.memory.get(id(source.node))
        if buffer is None or buffer.stored is None:
            if source.node.type == "Store":
                raise _HiddenError
            raise self.emission.error("AF1301", f"its input {source} is no Store")
        return buffer.stored

    def _output(self, n: Operator, row: CannOp) -> None:
        buffer = self._numbered(n, self.writes, "Output")
        stored = self._stored(n)
        self._declared(n, stored.tensor.dtype)
        buffer.stored, buffer.dtype = stored, stored.tensor.dtype

    def _workspace(self, n: Operator, row: CannOp) -> None:
        stored = self._stored(n)
        self._declared(n, stored.tensor.dtype)
        self.memory[id(n)] = Buffer(n.name, -1, stored.tensor.dtype, {}, stored)

    # values -----------------------------------------------------------------------------------

    def _outside(self, value: Value) -> Value:
        """The value as the client's memory holds it: bool as uint8."""
        return self.emission.cast(value, outside(self.emission.dtype(value)))

    def _declared(self, n: Operator, dtype: DType) -> None:
        if n.y.dtype is not None and outside(n.y.dtype) != outside(dtype):
            text = f"y.dtype is {n.y.dtype}, but {n.type} gives {outside(dtype)} here"
            raise self.emission.error("AF1207", text, "a Cast is needed")

    def _fitted(
        self, n: Operator, x: _Result, axes: tuple[int, ...], sizes: Shape
    ) -> Tensor:
        """The value with these axes and sizes."""
        if isinstance(x.value, Tensor):
            if x.axes != axes:
                raise self.emission.error(
                    "AF1301",
                    f"the axes of y are {self._names(axes)}, those of its input {self._names(x.axes)}",
                    "only Transpose changes the order of axes",
                )
            if not _spreads(x.value.shape, sizes):
                shape = ", ".join(map(str, x.value.shape))
                want = ", ".join(map(str, sizes))
                text = f"the sizes of y are [{want}], those of its input [{shape}]"
                raise self.emission.error("AF1204", text)
        return self.emission.broadcast(x.value, sizes)

    def _names(self, axes: tuple[int, ...]) -> str:
        return "(" + ", ".join(self.hint.axes[a].name for a in axes) + ")"

    def _keep(self, n: Operator, value: Value, axes: tuple[int, ...]) -> None:
        """The result of a node, with the sizes that y has."""
        layout = self._layout(n)
        self._declared(n, self.emission.dtype(value))
        if isinstance(value, Tensor) and layout.sizes is not None:
            value = self._fitted(n, _Result(value, axes), layout.axes or axes, layout.sizes)
        self.results[id(n)] = _Result(value, axes)

    def _scalar(self, n: Operator, row: CannOp) -> None:
        dtype = n.y.dtype
        if dtype is None:
            raise self.emission.error("AF1101", "the element type of Scalar is not set", "y.dtype")
        if "value" not in n.ir_attr.values:
            raise self.emission.error("AF1101", "the value of Scalar is not set", "attr.ir_attr.value")
        raw = n.ir_attr.values["value"]
        try:
            number = _number(raw)
        except ValueError:
            text = f"the value {raw!r} of Scalar is no number"
            raise self.emission.error("AF1104", text, "such as '1e-06', 'inf', '-inf' or 'nan'") from None
        given = Constant(number, BY_NAME["float32"] if isinstance(number, float) else None)
        self.results[id(n)] = _Result(self.emission.constant_as(given, dtype))

    def _elewise(self, n: Operator, row: CannOp) -> None:
        e = self.emission
        given = [self._result(n, name) for name in row.inputs]
        values = [g.value for g in given]
        tensors = [g for g in given if isinstance(g.value, Tensor)]
        axes = tensors[0].axes if tensors else ()
        for g in tensors[1:]:
            if g.axes != axes:
                raise e.error(
                    "AF1301",
                    f"its inputs have the axes {self._names(axes)} and {self._names(g.axes)}",
                    "only Transpose changes the order of axes",
                )
        conditions = condition_inputs(row)
        truths = row.row.dtype_rule is truth_dtype or row.op == "Identity"
        for i, v in enumerate(values):
            if i in conditions:
                values[i] = e.cast(v, _BOOL)
            elif not truths:
                values[i] = self._outside(v)
        self._unify(values, conditions)
        self._keep(n, e.op(row.op, values, self._op_attrs(n, row)), axes)

    def _unify(self, values: list[Value], conditions: Sequence[int]) -> None:
        """Constants take the element type of the tensors beside them."""
        beside = [v for i, v in enumerate(values) if i not in conditions]
        tensor = next((v for v in beside if isinstance(v, Tensor)), None)
        if tensor is None:
            return
        for i, v in enumerate(values):
            if i not in conditions and isinstance(v, Constant):
                values[i] = self.emission.constant_as(v, tensor.dtype)

    def _op_attrs(self, n: Operator, row: CannOp) -> dict[str, Any]:
        out: dict[str, Any] = {}
        kinds = {a.name: a for a in row.row.attrs}
        for name, own in row.attrs.items():
            if name in n.ir_attr.values:
                out[own] = self._attr(n, name, kinds[own], n.ir_attr.values[name])
        if "dtype" in kinds:
            if n.y.dtype is None:
                raise self.emission.error("AF1101", f"y.dtype of {n.type} is not set")
            out["dtype"] = n.y.dtype.name
        return out

    def _attr(self, n: Operator, name: str, attr: Attr, value: Any) -> Any:
        try:
            if attr.kind == "float":
                return float(value)
            if attr.kind == "int" and not isinstance(value, bool):
                return int(value)
        except (TypeError, ValueError):
            pass
        if (attr.kind == "bool" and isinstance(value, bool)) or (
            attr.kind == "str" and isinstance(value, str)
        ):
            return value
        text = f"the attribute {name!r} of {n.type} must be {attr.kind}, not {value!r}"
        raise self.emission.error("AF1205", text)

    def _cast(self, n: Operator, row: CannOp) -> None:
        x = self._result(n, "x")
        if n.y.dtype is None:
            raise self.emission.error("AF1101", "y.dtype of Cast is not set")
        self._keep(n, self.emission.cast(x.value, n.y.dtype), x.axes)

    def _broadcast(self, n: Operator, row: CannOp) -> None:
        x = self._result(n, "x")
        layout = self._layout(n)
        if layout.axes is None or layout.sizes is None:
            raise self.emission.error("AF1101", "y.axis and y.size of Broadcast are not set")
        self._declared(n, self.emission.dtype(x.value))
        tensor = self._fitted(n, x, layout.axes, layout.sizes)
        self.results[id(n)] = _Result(tensor, layout.axes)

    def _transpose(self, n: Operator, row: CannOp) -> None:
        x = self._result(n, "x")
        axes = self._layout(n).axes
        if axes is None:
            raise self.emission.error("AF1101", "y.axis of Transpose is not set")
        if isinstance(x.value, Constant):
            self.results[id(n)] = x
            return
        if sorted(axes) != sorted(x.axes):
            text = f"the axes of y are {self._names(axes)}, those of its input {self._names(x.axes)}"
            raise self.emission.error("AF1204", text, "a Transpose keeps the axes and their sizes")
        perm = [x.axes.index(a) for a in axes]
        self._keep(n, self.emission.transpose(x.value, perm), axes)

    def _reduced(self, n: Operator) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
        """The operand of a reduction, its axes, and the positions of those that go."""
        layout = self._layout(n)
        if layout.axes is None or layout.sizes is None:
            raise self.emission.error("AF1101", f"y.axis and y.size of {n.type} are not set")
        x = self._result(n, "x")
        value = x.value
        if isinstance(value, Constant):
            # Along its whole loop, as a constant has no sizes of its own.
            sizes = tuple(self._size(self.hint.axes[a].size, "axis") for a in layout.axes)
            x = _Result(self.emission.broadcast(value, sizes), layout.axes)
        tensor = x.value
        assert isinstance(tensor, Tensor)
        if x.axes != layout.axes:
            names = f"{self._names(layout.axes)}, those of its input {self._names(x.axes)}"
            raise self.emission.error("AF1301", f"the axes of y are {names}")
        gone = []
        for i, (have, want) in enumerate(zip(tensor.shape, layout.sizes, strict=True)):
            if have != want and want != 1:
                text = f"size {have} along {self._names((x.axes[i],))} cannot become {want}"
                raise self.emission.error("AF1204", text, "a reduction leaves sizes or makes them 1")
            if have != want:
                gone.append(i)
        return tensor, x.axes, tuple(gone)

    def _reduce(self, n: Operator, row: CannOp) -> None:
        tensor, axes, gone = self._reduced(n)
        value: Value = tensor
        truths = row.row.dtype_rule is truth_dtype
        if not truths:
            value = self._outside(value)
        if not gone:
            value = self.emission.cast(value, _BOOL) if truths else value
        else:
            value = self.emission.op(row.op, [value], {"axes": gone, "keepdims": True})
        self._declared(n, self.emission.dtype(value))
        self.results[id(n)] = _Result(value, axes)

    def _position(self, n: Operator, row: CannOp) -> None:
        tensor, axes, gone = self._reduced(n)
        if len(gone) != 1:
            text = f"{n.type} along {len(gone)} axes is not supported"
            raise self.emission.error("AF1301", text, "one size of y becomes 1")
        dtype = n.y.dtype or BY_NAME["int64"]
        attrs = {"axis": gone[0], "keepdims": True, "dtype": dtype.name}
        self.results[id(n)] = _Result(self.emission.op(row.op, [tensor], attrs), axes)

    def _concat(self, n: Operator, row: CannOp) -> None:
        e = self.emission
        layout = self._layout(n)
        sources = _sources(n.inputs.get("x"))
        if layout.axes is None or layout.sizes is None or not sources:
            raise e.error("AF1101", "x, y.axis and y.size of Concat are not set")
        shapes, values = [], []
        for s in sources:
            found = self.results.get(id(s.node))
            if found is None:
                raise _HiddenError
            if not isinstance(found.value, Tensor) or len(found.axes) != len(layout.axes):
                raise e.error("AF1204", f"{s} has not the axes of y")
            values.append(found.value)
            shapes.append(found.value.shape)
        differ = [
            i
            for i, want in enumerate(layout.sizes)
            if any(shape[i] != want for shape in shapes)
        ]
        if len(differ) > 1 or (not differ and len(values) > 1):
            raise e.error("AF1204", "the inputs of Concat differ from y along other than one axis")
        if not differ:
            self.results[id(n)] = _Result(values[0], layout.axes)
            return
        self._keep(n, e.op("Concat", values, {"axis": differ[0]}), layout.axes)


_READERS: Mapping[str, Callable[[NodeReader, Operator, CannOp], None]] = {
    "data": NodeReader._data,
    "scalar": NodeReader._scalar,
    "load": NodeReader._load,
    "store": NodeReader._store,
    "output": NodeReader._output,
    "workspace": NodeReader._workspace,
    "broadcast": NodeReader._broadcast,
    "transpose": NodeReader._transpose,
    "reduce": NodeReader._reduce,
    "position": NodeReader._position,
    "cast": NodeReader._cast,
    "concat": NodeReader._concat,
    "elewise": NodeReader._elewise,
}


def _sources(value: object) -> list[OpOutput]:
    """The outputs that an assignment to an input means."""
    values = value if isinstance(value, list | tuple) else [value]
    return [s for v in values if (s := source_of(v)) is not None]


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _count(values: Sequence[object] | None) -> int:
    return 0 if values is None else len(values)


def _spreads(shape: Shape, sizes: Shape) -> bool:
    try:
        return broadcast_shapes([shape, sizes]) == sizes and len(shape) == len(sizes)
    except OpError:
        return False


def _number(raw: object) -> int | float:
    """A number from its text: an integer where it is written as one; ValueError for anything else."""
    if isinstance(raw, bool | int):
        return int(raw)
    if isinstance(raw, float):
        return raw
    text = str(raw).strip()
    if text in ("True", "False"):
        return int(text == "True")
    try:
        return int(text)
    except ValueError:
        return float(text)
