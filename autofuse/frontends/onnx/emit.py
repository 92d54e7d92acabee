"""Builds a FusionGraph from values of an ONNX graph, with constants folded into the ops that use them.

An ONNX constant with one value becomes a constant operand, a range (0, 1, 2, ... along an axis) an Iota, and any other
a parameter of the kernel, because a FusionGraph holds no data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.wording import counted
from autofuse.frontends import builder
from autofuse.frontends.builder import Move, Number, Shape, fixed
from autofuse.frontends.onnx.values import (
    Array,
    Foreign,
    Known,
    NeededError,
    Traced,
    Value,
    dtype_of_array,
    uniform_value,
)
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import DType, numpy_dtype
from autofuse.implgraph.ir.fusion import Constant, Tensor

__all__ = ["Emitter"]

#: Most elements of a constant that are copied here; larger ones are left to the kernel.
_MAX_COPIED = 1 << 22


class Emitter(builder.Emitter[Value]):
    """Adds nodes to a graph.

    Attributes:
        op_type: op of the current ONNX node, for messages.
        parameters: name of a graph input -> the constant to pass.
        origins: such an input -> name of its ONNX tensor; empty for results of nodes.
    """

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name, path)
        self.path = path
        self.op_type = ""
        self.parameters: dict[str, Array] = {}
        self.origins: dict[str, str] = {}
        self._constants: dict[int, tuple[Known, Tensor]] = {}

    # errors -----------------------------------------------------------------------------------

    def error(self, code: str, text: str, hint: str = "") -> AutofuseError:
        """Return a diagnostic at the current node."""
        prefix = f"{self.op_type}: " if self.op_type else ""
        where = Where(self.path, self.pointer, node=self.node)
        return AutofuseError.of(code, prefix + text, where=where, hint=hint)

    def check(self, shape: Shape) -> None:
        """Raise AF1109 for a result that is too large."""
        self.check_shape(shape, self.pointer, f"a result of {self.op_type}")
        self.refuse()

    # undoing ----------------------------------------------------------------------------------

    def mark(self) -> tuple[int, ...]:
        """Return the current counts, for :meth:`restore`."""
        held = (self.nodes, self.inputs, self.tensors, self.symbols, self.parameters)
        return tuple(len(part) for part in (*held, self._constants))

    def restore(self, mark: Sequence[int]) -> None:
        """Undo everything since ``mark``; names stay taken."""
        del self.nodes[mark[0] :], self.inputs[mark[1] :]
        held: list[dict[Any, Any]] = [self.tensors, self.symbols, self.parameters, self._constants]
        for part, count in zip(held, mark[2:], strict=True):
            for key in list(part)[count:]:
                del part[key]

    # values -----------------------------------------------------------------------------------

    def input(self, name: str, dtype: DType, shape: Shape) -> Traced:
        """Return a parameter of the kernel for an input of the ONNX graph."""
        self.check_shape(shape, self.pointer, f"the input {name!r}")
        self.refuse()
        return Traced(self.parameter(name, dtype, shape), frozenset({name}))

    def shape(self, x: Value) -> Shape:
        """Sizes, outermost first."""
        return x.shape

    def dtype(self, x: Value) -> DType:
        """Element type.

        Raises:
            AutofuseError: AF1203, autofuse does not have it.
        """
        if x.dtype is None:
            name = x.type_name if isinstance(x, Foreign) else x.array.dtype
            raise self.error("AF1203", f"no kernel holds elements of type {name}")
        return x.dtype

    def made(self, tensor: Tensor, xs: Sequence[Value]) -> Traced:
        """Return a tensor as a value that depends on all inputs of its operands."""
        sources = (x.sources for x in xs if isinstance(x, Traced))
        return Traced(tensor, frozenset[str]().union(*sources))

    def operand(self, x: Value) -> Tensor | Constant:
        """Return a value as an operand of the FusionGraph: a tensor, or a constant if all elements are equal."""
        if isinstance(x, Known) and x.dtype is not None:
            value = uniform_value(x.array)
            if value is not None:
                return Constant(value, x.dtype)
        return self.tensor(x)

    def tensor(self, x: Value) -> Tensor:
        """Return the operand as a tensor of the graph: a constant becomes an Iota, a Broadcast or a parameter.

        Raises:
            AutofuseError: AF1203, kernels do not support such elements.
        """
        if isinstance(x, Traced):
            return x.tensor
        self.dtype(x)
        assert isinstance(x, Known)
        held = self._constants.get(id(x))
        if held is None:
            held = (x, self._constant(x))
            self._constants[id(x)] = held
        return held[1]

    def _constant(self, x: Known) -> Tensor:
        array = self.numbers(x)
        dtype = dtype_of_array(array)
        assert dtype is not None
        if (value := uniform_value(array)) is not None:
            return self.emit("Broadcast", [Constant(value, dtype)], {"shape": x.shape})
        line = _counts(array)
        if line is not None:
            axis, start, step = line
            return self.tensor(self.iota(x.shape, axis, dtype, start=start, step=step))
        if array.size > _MAX_COPIED:
            text = f"a constant of {counted(array.size, 'element')}; at most {_MAX_COPIED} are held"
            raise self.error("AF1109", text)
        tensor = self.parameter(x.name or f"{self.node}_constant", dtype, x.shape)
        self.parameters[tensor.name] = np.ascontiguousarray(array)
        self.origins[tensor.name] = x.name
        return tensor

    def numbers(self, x: Known) -> Array:
        """Return the array without objects.

        Raises:
            AutofuseError: AF1203, it contains symbolic sizes.
        """
        if x.array.dtype != object:
            return x.array
        flat = [_integer(v) for v in x.array.reshape(-1)]
        if any(v is None for v in flat):
            raise self.error(
                "AF1203",
                "an unknown size is used as a number",
                "fix the sizes of the inputs' dimensions",
            )
        return np.asarray(flat, numpy_dtype(self.dtype(x))).reshape(x.array.shape)

    def scalar(self, value: float | bool, dtype: DType) -> Known:
        """Return a constant of one element."""
        return Known(np.asarray(value, numpy_dtype(dtype)))

    def like(self, value: float | bool, x: Value) -> Known:
        """Return a constant with the dtype of another operand."""
        return self.scalar(value, self.dtype(x))

    def elements(self, x: Value, what: str) -> Array:
        """Return the elements of an operand that must be known now.

        Raises:
            NeededError: they are not known.
        """
        if isinstance(x, Known):
            return x.array
        raise NeededError(what, x.sources)

    # known values -----------------------------------------------------------------------------

    def folded(
        self,
        name: str,
        xs: Sequence[Value | Number],
        constants: Sequence[Constant],
        attrs: Mapping[str, Any],
    ) -> Known:
        """Fold an op of constants only."""
        value, _ = self.evaluated(name, constants, attrs)
        shape = self.together([x for x in xs if not isinstance(x, int | float)])
        return Known(np.broadcast_to(value, [s.value for s in shape]))

    def converted(self, x: Value, dtype: DType) -> Value | None:
        """Convert constants of one value, and small ones of unsupported types, to another element type."""
        if x.dtype == dtype:
            return x
        if not isinstance(x, Known) or x.array.dtype == object:
            return None
        same = uniform_value(x.array) is not None
        if not same and (x.dtype is not None or x.array.size > _MAX_COPIED):
            return None
        with np.errstate(all="ignore"):
            cast = (x.array[(0,) * x.array.ndim] if same else x.array).astype(numpy_dtype(dtype))
        return Known(np.broadcast_to(cast, x.array.shape), x.name)

    def kept(self, x: Value, shape: Shape, move: Move | None, *, copied: bool) -> Value | None:
        """Move the elements of a constant, unless that copies too many."""
        self.check(shape)
        sizes = fixed(shape)
        if not isinstance(x, Known) or move is None or sizes is None:
            return None
        if copied and uniform_value(x.array) is not None:
            return Known(np.broadcast_to(x.array[(0,) * x.array.ndim], sizes), x.name)
        if copied and math.prod(sizes) > _MAX_COPIED:
            return None
        return Known(move(x.array, sizes), x.name)

    def joined(self, xs: Sequence[Value], axis: int) -> Value:
        """Concatenate constants."""
        known = [x for x in xs if isinstance(x, Known)]
        if len(known) == len(xs) and sum(x.array.size for x in known) <= _MAX_COPIED:
            return Known(np.concatenate([x.array for x in known], axis))
        return super().joined(xs, axis)

    # short forms ------------------------------------------------------------------------------

    def add(self, a: Value, b: Value) -> Value:
        """A + b."""
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


def _integer(v: Any) -> int | None:
    return v.as_int() if isinstance(v, Expr) else int(v)


def _counts(array: Array) -> tuple[int, int, int] | None:
    """Return (axis, start, step) if an integer array is start + step*i along one axis."""
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
