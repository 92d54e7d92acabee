"""Building a FusionGraph op by op, with constants folded into the ops that use them.

An ONNX constant with one value becomes a constant operand; one that counts (0, 1, 2, ... along an
axis) an Iota; any other a parameter of the kernel, because a FusionGraph holds no data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.frontends.builder import GraphBuilder, shape_text
from autofuse.frontends.json_positions import Document, Findings
from autofuse.frontends.names import identifier
from autofuse.frontends.onnx.values import (
    Array,
    Foreign,
    Known,
    NeededError,
    Shape,
    Traced,
    Value,
    dtype_of_array,
    uniform_value,
)
from autofuse.implgraph.expr.expression import Expr, const
from autofuse.implgraph.ir.dtypes import BY_NAME, DType, numpy_dtype
from autofuse.implgraph.ir.fusion import Constant, Tensor
from autofuse.implgraph.ops import registry
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.rules import broadcast_shapes, with_source

__all__ = ["Emitter"]

INT64 = BY_NAME["int64"]
#: Elements of a constant that are copied here; larger ones are left to the kernel.
_MAX_COPIED = 1 << 22


class Emitter:
    """Adds nodes to a graph.

    Attributes:
        builder: the graph so far.
        node: name of the ONNX node that is being read, for messages and for names of tensors.
        op_type: its op, for messages.
        pointer: its place.
        parameters: name of a graph input -> the constant that has to be passed there.
        origins: such an input -> name of the ONNX tensor that it was made from; empty for results of nodes.
    """

    def __init__(self, name: str, path: str) -> None:
        self.path = path
        self.findings = Findings(Document(None, "", path))
        self.builder = GraphBuilder(self.findings, name)
        self.node = ""
        self.op_type = ""
        self.pointer = ""
        self.parameters: dict[str, Array] = {}
        self.origins: dict[str, str] = {}
        self._inputs: dict[str, Traced] = {}
        self._constants: dict[int, tuple[Known, Traced]] = {}

    # errors -----------------------------------------------------------------------------------

    def error(self, code: str, text: str, hint: str = "") -> AutofuseError:
        """A diagnostic at the node that is being read."""
        prefix = f"{self.op_type}: " if self.op_type else ""
        where = Where(self.path, self.pointer, node=self.node)
        return AutofuseError.of(code, prefix + text, where=where, hint=hint)

    # what was tried ---------------------------------------------------------------------------

    def mark(self) -> tuple[int, ...]:
        """How much there is by now, for :meth:`restore`."""
        b = self.builder
        held = (b.nodes, b.tensors, b.symbols, self.parameters, self._inputs, self._constants)
        return tuple(len(part) for part in held)

    def restore(self, mark: Sequence[int]) -> None:
        """Take back everything since ``mark``, with what was found to be wrong; names stay taken."""
        b = self.builder
        del b.nodes[mark[0] :]
        held: list[dict[Any, Any]] = [
            b.tensors,
            b.symbols,
            self.parameters,
            self._inputs,
            self._constants,
        ]
        for part, count in zip(held, mark[1:], strict=True):
            for key in list(part)[count:]:
                del part[key]
        self.findings = b.findings = Findings(Document(None, "", self.path))

    # operands ---------------------------------------------------------------------------------

    def input(self, name: str, dtype: DType, shape: Shape) -> Traced:
        """A parameter of the kernel for an input of the ONNX graph."""
        ident = identifier(name, self.builder.taken)
        if not self.builder.check_shape(shape, self.pointer, f"the input {name!r}"):
            self.findings.raise_if_any()
        tensor = Tensor(ident, dtype, shape, origin=self.pointer)
        self.builder.add_tensor(tensor)
        found = Traced(tensor, frozenset({name}))
        self._inputs[name] = found
        return found

    def traced(self, x: Value) -> Traced:
        """The operand as a tensor of the graph: a constant becomes an Iota, a Broadcast or a parameter.

        Raises:
            AutofuseError: AF1203, no kernel holds such elements.
        """
        if isinstance(x, Traced):
            return x
        if isinstance(x, Foreign):
            raise self.error("AF1203", f"no kernel holds elements of type {x.type_name}")
        if x.dtype is None:
            raise self.error("AF1203", f"no kernel holds elements of type {x.array.dtype}")
        held = self._constants.get(id(x))
        if held is None:
            held = (x, self._constant(x))
            self._constants[id(x)] = held
        return held[1]

    def _constant(self, x: Known) -> Traced:
        array = self.numbers(x)
        dtype = dtype_of_array(array)
        assert dtype is not None
        if (value := uniform_value(array)) is not None:
            return self._node(
                "Broadcast", [Constant(value, dtype)], {"shape": x.shape}, frozenset()
            )
        line = _counts(array)
        if line is not None:
            axis, start, step = line
            attrs = {
                "shape": x.shape,
                "axis": axis,
                "dtype": dtype.name,
                "start": start,
                "step": step,
            }
            return self._node("Iota", [], attrs, frozenset())
        if array.size > _MAX_COPIED:
            text = f"a constant of {array.size} elements; at most {_MAX_COPIED} are held"
            raise self.error("AF1109", text)
        ident = identifier(x.name or f"{self.node}_constant", self.builder.taken)
        tensor = Tensor(ident, dtype, x.shape, origin=self.pointer)
        self.builder.add_tensor(tensor)
        self.parameters[ident] = np.ascontiguousarray(array)
        self.origins[ident] = x.name
        return Traced(tensor, frozenset())

    def numbers(self, x: Known) -> Array:
        """The array without objects.

        Raises:
            AutofuseError: AF1203, sizes of symbolic dimensions are in it.
        """
        if x.array.dtype != object:
            return x.array
        flat = [_integer(v) for v in x.array.reshape(-1)]
        if any(v is None for v in flat):
            raise self.error(
                "AF1203",
                "a size that is not known is used as a number",
                "give the dimensions of the inputs fixed sizes",
            )
        return np.asarray(flat, np.int64).reshape(x.array.shape)

    def operand(self, x: Value) -> Traced | Constant:
        """What a node of the FusionGraph takes: a tensor, or a constant if all elements are equal."""
        if isinstance(x, Known) and x.dtype is not None and x.array.dtype != object:
            value = uniform_value(x.array)
            if value is not None:
                return Constant(value, x.dtype)
        return self.traced(x)

    def scalar(self, value: float | bool, dtype: DType) -> Known:
        """A constant of one element."""
        return Known(np.asarray(value, numpy_dtype(dtype)))

    def like(self, value: float | bool, x: Value) -> Known:
        """A constant with the dtype of another operand."""
        return self.scalar(value, self.dtype(x))

    def dtype(self, x: Value) -> DType:
        """Element type.

        Raises:
            AutofuseError: AF1203, it is none of ours.
        """
        if isinstance(x, Foreign) or x.dtype is None:
            self.traced(x)
            raise AssertionError("traced() refuses what has no dtype")
        return x.dtype

    def elements(self, x: Value, what: str) -> Array:
        """The elements of an operand that has to be known now.

        Raises:
            NeededError: they are not.
        """
        if isinstance(x, Known):
            return x.array
        raise NeededError(what, x.sources)

    # ops --------------------------------------------------------------------------------------

    def op(self, name: str, *xs: Value, **attrs: Any) -> Value:
        """One element-wise op of the registry with broadcasting as NumPy's, of constants too.

        Raises:
            AutofuseError: AF1201 the registry has no such op; whatever the op refuses.
        """
        operands = [self.operand(x) for x in xs]
        constants = [o for o in operands if isinstance(o, Constant)]
        if len(constants) == len(operands):
            return self._evaluated(name, constants, [x.shape for x in xs], attrs)
        sources = frozenset[str]().union(*(o.sources for o in operands if isinstance(o, Traced)))
        found = self._node(name, operands, attrs, sources)
        try:
            shape = broadcast_shapes([x.shape for x in xs])
        except OpError as e:
            raise self.error(e.code, str(e), e.hint) from None
        return self.broadcast(found, shape)

    def _node(
        self,
        name: str,
        operands: Sequence[Traced | Constant],
        attrs: Mapping[str, Any],
        sources: frozenset[str],
    ) -> Traced:
        row = registry.find(name)
        if row is None or not row.user:
            raise self.error("AF1201", f"needs the op {name!r}, which is not known")
        given = [o.tensor if isinstance(o, Traced) else o for o in operands]
        result = self.builder.infer(row, given, attrs, self.pointer, node=self.node)
        self.findings.raise_if_any()
        assert result is not None
        dtype, shape = result
        self._check(shape)
        label = self.node or name
        tensor = Tensor(identifier(label, self.builder.taken), dtype, shape, origin=self.pointer)
        inputs = tuple(o.tensor.name if isinstance(o, Traced) else o for o in operands)
        self.builder.add_node(
            f"{label}_{name}", row.name, inputs, tensor, dict(attrs), self.pointer
        )
        return Traced(tensor, sources)

    def _check(self, shape: Shape) -> None:
        """AF1109 for a result that is too large."""
        if not self.builder.check_shape(shape, self.pointer, f"a result of {self.op_type}"):
            self.findings.raise_if_any()

    def _evaluated(
        self, name: str, xs: Sequence[Constant], shapes: Sequence[Shape], attrs: Mapping[str, Any]
    ) -> Known:
        """An op of constants only, by the row's reference."""
        row = registry.find(name)
        if row is None or row.reference is None:
            raise self.error("AF1201", f"needs the op {name!r}, which is not known")
        dtypes = [x.dtype for x in xs if x.dtype is not None]
        try:
            dtype = row.dtype_rule(dtypes, attrs)
        except OpError as e:
            raise self.error(e.code, str(e), e.hint) from None
        with np.errstate(all="ignore"):
            given = with_source(attrs, row.attr_names(), dtypes[0].name if dtypes else "")
            value = row.reference([np.asarray(x.value) for x in xs], given).astype(
                numpy_dtype(dtype)
            )
        sizes = broadcast_shapes(shapes)
        return Known(np.broadcast_to(value, [s.value for s in sizes]))

    def cast(self, x: Value, dtype: DType) -> Value:
        """The operand in another element type; to bool: whether it is not 0."""
        if not isinstance(x, Foreign) and x.dtype == dtype:
            return x
        if isinstance(x, Known) and x.array.dtype != object:
            same = uniform_value(x.array) is not None
            if same or (x.dtype is None and x.array.size <= _MAX_COPIED):
                array = x.array[(0,) * x.array.ndim] if same else x.array
                with np.errstate(all="ignore"):
                    cast = array.astype(numpy_dtype(dtype))
                return Known(np.broadcast_to(cast, x.array.shape), x.name)
        return self.op("Cast", x, dtype=dtype.name)

    def broadcast(self, x: Value, shape: Shape) -> Value:
        """NumPy's broadcast_to."""
        if x.shape == shape:
            return x
        self._check(shape)
        if isinstance(x, Known) and (sizes := _sizes(shape)) is not None:
            return Known(np.broadcast_to(x.array, sizes), x.name)
        t = self.traced(x)
        return self._node("Broadcast", [t], {"shape": shape}, t.sources)

    def reshape(self, x: Value, shape: Shape) -> Value:
        """The same elements in the same order."""
        if x.shape == shape:
            return x
        if isinstance(x, Known) and (sizes := _sizes(shape)) is not None:
            value = uniform_value(x.array)
            if value is not None:
                return Known(np.broadcast_to(x.array[(0,) * x.array.ndim], sizes), x.name)
            if x.array.size <= _MAX_COPIED:
                return Known(x.array.reshape(sizes), x.name)
        t = self.traced(x)
        return self._node("Reshape", [t], {"shape": shape}, t.sources)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """Axis i of the result is axis perm[i] of the operand."""
        if list(perm) == list(range(len(perm))):
            return x
        if isinstance(x, Known):
            return Known(np.transpose(x.array, perm), x.name)
        t = self.traced(x)
        shape = tuple(t.shape[p] for p in perm)
        moved = [p for p in perm if t.shape[p] != 1]
        if moved == sorted(moved):  # only axes of one element move
            return self.reshape(t, shape)
        return self._node("Transpose", [t], {"perm": tuple(perm)}, t.sources)

    def slice(
        self, x: Value, starts: Sequence[Expr], shape: Shape, steps: Sequence[int] | None = None
    ) -> Value:
        """Element j of the result along an axis is element start + j*step."""
        taken = tuple(steps) if steps is not None else (1,) * len(shape)
        if x.shape == shape and all(s == 0 for s in starts) and all(s == 1 for s in taken):
            return x
        self._check(shape)
        at, sizes = _sizes(starts), _sizes(shape)
        if isinstance(x, Known) and at and sizes and math.prod(sizes) <= _MAX_COPIED:
            index = [s + np.arange(n) * k for s, n, k in zip(at, sizes, taken, strict=True)]
            return Known(x.array[np.ix_(*index)], x.name)
        t = self.traced(x)
        attrs = {"starts": tuple(starts), "shape": shape, "steps": taken}
        return self._node("Slice", [t], attrs, t.sources)

    def part(self, x: Value, axis: int, start: Expr | int, size: Expr | int) -> Value:
        """A range of one axis, all of the others."""
        rank = len(x.shape)
        starts = [Expr.of(start) if i == axis else const(0) for i in range(rank)]
        shape = tuple(Expr.of(size) if i == axis else x.shape[i] for i in range(rank))
        return self.slice(x, starts, shape)

    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        """Side by side along an axis; operands without elements are left out."""
        full = [x for x in xs if x.shape[axis] != 0] or list(xs[:1])
        if len(full) == 1:
            return full[0]
        known = [x for x in full if isinstance(x, Known)]
        if len(known) == len(full) and sum(x.array.size for x in known) <= _MAX_COPIED:
            return Known(np.concatenate([x.array for x in known], axis))
        ts = [self.traced(x) for x in full]
        sources = frozenset[str]().union(*(t.sources for t in ts))
        return self._node("Concat", ts, {"axis": axis}, sources)

    def pad(self, x: Value, low: Sequence[Expr], high: Sequence[Expr], value: float | int) -> Value:
        """A border of one value."""
        if all(v == 0 for v in (*low, *high)):
            return x
        t = self.traced(x)
        attrs = {"low": tuple(low), "high": tuple(high), "value": value}
        return self._node("Pad", [t], attrs, t.sources)

    def iota(self, shape: Shape, axis: int, dtype: DType) -> Traced:
        """0, 1, 2, ... along an axis."""
        attrs = {"shape": shape, "axis": axis, "dtype": dtype.name}
        return self._node("Iota", [], attrs, frozenset())

    def reduce(self, kind: str, x: Value, axes: Sequence[int], *, keepdims: bool) -> Value:
        """``ReduceSum`` and the like; a reduction along no axis is the operand."""
        if not axes:
            return x
        t = self.traced(x)
        attrs = {"axes": tuple(axes), "keepdims": keepdims}
        return self._node(kind, [t], attrs, t.sources)

    def node_of(self, name: str, xs: Sequence[Value], **attrs: Any) -> Value:
        """A row that is not element-wise: the result's shape is the row's."""
        ts = [self.traced(x) for x in xs]
        return self._node(name, ts, attrs, frozenset[str]().union(*(t.sources for t in ts)))

    # short forms ------------------------------------------------------------------------------

    def add(self, a: Value, b: Value) -> Value:
        """A + b; nothing where b is the constant 0 and has no more dimensions."""
        return self.op("Add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """A - b."""
        return self.op("Sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """A * b; a where b is the constant 1."""
        if isinstance(b, Known) and b.array.ndim == 0 and uniform_value(b.array) == 1:
            return a
        return self.op("Mul", a, b)

    def div(self, a: Value, b: Value) -> Value:
        """A / b, floats."""
        return self.op("Div", a, b)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """A where the condition holds, else b."""
        if isinstance(condition, Known):
            known = uniform_value(condition.array)
            if known is not None:
                shape = broadcast_shapes([condition.shape, a.shape, b.shape])
                return self.broadcast(a if known else b, shape)
        operands = [self.operand(condition), self.operand(a), self.operand(b)]
        if all(isinstance(o, Constant) for o in operands[1:]):
            # Two constants have no shape; the condition gives it.
            a = self.broadcast(a, condition.shape)
            b = self.broadcast(b, condition.shape)
        return self.op("Select", condition, a, b)

    def shape_message(self, x: Value) -> str:
        """A shape for a message."""
        return shape_text(x.shape)


def _integer(v: Any) -> int | None:
    return v.as_int() if isinstance(v, Expr) else int(v)


def _sizes(shape: Sequence[Expr]) -> tuple[int, ...] | None:
    """A shape as numbers, if it is fixed."""
    out = [s.as_int() for s in shape]
    return None if any(n is None for n in out) else tuple(n for n in out if n is not None)


def _counts(array: Array) -> tuple[int, int, int] | None:
    """(axis, start, step) if an integer array is start + step*i along one axis."""
    if array.dtype.kind not in "iu" or array.size < 2:
        return None
    axes = [
        i for i in range(array.ndim) if array.shape[i] > 1 and (np.diff(array, axis=i) != 0).any()
    ]
    if len(axes) != 1:
        return None
    line = np.moveaxis(array, axes[0], 0).reshape(array.shape[axes[0]], -1)[:, 0].astype(object)
    step = line[1] - line[0]
    if any(line[i] != line[0] + i * step for i in range(len(line))):
        return None
    return axes[0], int(line[0]), int(step)
