"""The nodes of one HintGraph, read into a FusionGraph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autofuse.base.wording import counted
from autofuse.clients.cann.pyautofuse.cann_ops import CannOp
from autofuse.clients.cann.pyautofuse.dtype_rules import condition_inputs
from autofuse.clients.cann.pyautofuse.nodes import Operator, sources_of
from autofuse.clients.cann.pyautofuse.reading.emission import Value
from autofuse.clients.cann.pyautofuse.reading.memory import HiddenError, MemoryReader, Result
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Constant, Tensor
from autofuse.implgraph.ops.definition import Attr
from autofuse.implgraph.ops.rules import truth_dtype

__all__ = ["NodeReader"]

_BOOL = BY_NAME["bool"]


class NodeReader(MemoryReader):
    """Reads the compute nodes of a graph; the base class reads the others."""

    def read_node(self, n: Operator, row: CannOp) -> None:
        """Read one node."""
        _READERS[row.kind](self, n, row)

    def _keep(self, n: Operator, value: Value, axes: tuple[int, ...]) -> None:
        """Store the result of a node, broadcast to the sizes of y."""
        layout = self._layout(n)
        self._declared(n, self.emission.dtype(value))
        if isinstance(value, Tensor) and layout.sizes is not None:
            value = self._fitted(n, Result(value, axes), layout.axes or axes, layout.sizes)
        self.results[id(n)] = Result(value, axes)

    def _scalar(self, n: Operator, row: CannOp) -> None:
        dtype = n.y.dtype
        if dtype is None:
            raise self.emission.error("AF1101", "the element type of Scalar is not set", "y.dtype")
        if "value" not in n.ir_attr.values:
            raise self.emission.error(
                "AF1101", "the value of Scalar is not set", "attr.ir_attr.value"
            )
        raw = n.ir_attr.values["value"]
        try:
            number = _number(raw)
        except ValueError:
            text = f"the value {raw!r} of Scalar is not a number"
            raise self.emission.error(
                "AF1104", text, "such as '1e-06', 'inf', '-inf' or 'nan'"
            ) from None
        given = Constant(number, BY_NAME["float32"] if isinstance(number, float) else None)
        self.results[id(n)] = Result(self.emission.constant_as(given, dtype))

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
        self._keep(n, e.op(row.op, *values, **self._op_attrs(n, row)), axes)

    def _unify(self, values: list[Value], conditions: Sequence[int]) -> None:
        """Give constants the element type of the other operands."""
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
        self.results[id(n)] = Result(tensor, layout.axes)

    def _transpose(self, n: Operator, row: CannOp) -> None:
        x = self._result(n, "x")
        axes = self._layout(n).axes
        if axes is None:
            raise self.emission.error("AF1101", "y.axis of Transpose is not set")
        if isinstance(x.value, Constant):
            self.results[id(n)] = x
            return
        if sorted(axes) != sorted(x.axes):
            text = f"the axes of y are {self._names(axes)}, but those of its input are {self._names(x.axes)}"
            raise self.emission.error("AF1204", text, "a Transpose keeps the axes and their sizes")
        perm = [x.axes.index(a) for a in axes]
        self._keep(n, self.emission.transpose(x.value, perm), axes)

    def _reduced(self, n: Operator) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
        """Return the operand of a reduction, its axes, and the positions of the reduced ones."""
        layout = self._layout(n)
        if layout.axes is None or layout.sizes is None:
            raise self.emission.error("AF1101", f"y.axis and y.size of {n.type} are not set")
        x = self._result(n, "x")
        value = x.value
        if isinstance(value, Constant):
            # Over the whole loop, because a constant has no sizes.
            sizes = tuple(self._size(self.hint.axes[a].size, "axis") for a in layout.axes)
            spread = self.emission.tensor(self.emission.broadcast(value, sizes))
            x = Result(spread, layout.axes)
        tensor = x.value
        assert isinstance(tensor, Tensor)
        if x.axes != layout.axes:
            names = f"{self._names(layout.axes)}, but those of its input are {self._names(x.axes)}"
            raise self.emission.error("AF1301", f"the axes of y are {names}")
        gone = []
        for i, (have, want) in enumerate(zip(tensor.shape, layout.sizes, strict=True)):
            if have != want and want != 1:
                text = f"size {have} along {self._names((x.axes[i],))} cannot become {want}"
                raise self.emission.error("AF1204", text, "a reduction keeps a size or makes it 1")
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
            value = self.emission.reduce(row.op, value, gone, keepdims=True)
        self._declared(n, self.emission.dtype(value))
        self.results[id(n)] = Result(value, axes)

    def _position(self, n: Operator, row: CannOp) -> None:
        tensor, axes, gone = self._reduced(n)
        if len(gone) != 1:
            text = f"{n.type} along {counted(len(gone), 'axis', 'axes')} is not supported"
            raise self.emission.error("AF1301", text, "exactly one size of y may become 1")
        dtype = n.y.dtype or BY_NAME["int64"]
        attrs = {"axis": gone[0], "keepdims": True, "dtype": dtype.name}
        self.results[id(n)] = Result(self.emission.apply(row.op, tensor, **attrs), axes)

    def _gather(self, n: Operator, row: CannOp) -> None:
        """Gather elements of ``x1`` along a dimension at the indices in ``x2``, whose axes replace that dimension."""
        e = self.emission
        data, index = self._operand(n, "x1"), self._operand(n, "x2")
        if not isinstance(data.value, Tensor) or not isinstance(index.value, Tensor):
            raise e.error("AF1301", "its inputs are tensors, not a Scalar")
        axis = n.ir_attr.values.get("axis", 0)
        rank = len(data.axes)
        if type(axis) is not int or not -rank <= axis < rank:
            raise e.error(
                "AF1205",
                f"the attribute 'axis' is {axis!r}, and x1 has {counted(rank, 'axis', 'axes')}",
            )
        at = axis % rank
        axes = (*data.axes[:at], *index.axes, *data.axes[at + 1 :])
        said = self._layout(n).axes
        if len(set(axes)) != len(axes) or said not in (None, axes):
            names = self._names(axes) if said is None else self._names(said)
            text = f"the axes of y are {names}; those of x1 and x2 make {self._names(axes)}"
            raise e.error("AF1301", text, "the axes of x2 replace one axis of x1")
        self._keep(n, e.apply(row.op, data.value, index.value, axis=at), axes)

    def _concat(self, n: Operator, row: CannOp) -> None:
        e = self.emission
        layout = self._layout(n)
        sources = sources_of(n.inputs.get("x"))
        if layout.axes is None or layout.sizes is None or not sources:
            raise e.error("AF1101", "x, y.axis and y.size of Concat are not set")
        shapes, values = [], []
        for s in sources:
            found = self.results.get(id(s.node))
            if found is None:
                raise HiddenError
            self._used(n, found)
            if not isinstance(found.value, Tensor) or len(found.axes) != len(layout.axes):
                raise e.error("AF1204", f"{s} does not have the axes of y")
            values.append(found.value)
            shapes.append(found.value.shape)
        differ = [
            i for i, want in enumerate(layout.sizes) if any(shape[i] != want for shape in shapes)
        ]
        if len(differ) > 1 or (not differ and len(values) > 1):
            raise e.error(
                "AF1204", "the inputs of Concat must differ from y along exactly one axis"
            )
        if not differ:
            self.results[id(n)] = Result(values[0], layout.axes)
            return
        self._keep(n, e.apply("Concat", *values, axis=differ[0]), layout.axes)


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
    "gather": NodeReader._gather,
    "elewise": NodeReader._elewise,
}


def _number(raw: object) -> int | float:
    """Parse a number: an integer if written as one, else a float; ValueError for anything else."""
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
