"""A FusionGraph that grows: nodes are added one by one, ops of constants only are computed at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.frontends.names import identifier
from autofuse.implgraph.expr.expression import Expr, ExprError
from autofuse.implgraph.ir.dtypes import BY_NAME, DType, numpy_dtype
from autofuse.implgraph.ir.fusion import Constant, FusionNode, Tensor
from autofuse.implgraph.ops import definition, registry
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.rules import with_source

__all__ = ["Emission", "Shape", "Value"]

Shape: TypeAlias = tuple[Expr, ...]
Value: TypeAlias = Tensor | Constant


class Emission:
    """Tensors and nodes of a graph in the making.

    Attributes:
        name: of the graph, an identifier.
        node: name of the client's node that is being read, for messages, and for names of tensors.
        tensors: by name.
        nodes: in topological order.
        inputs: names of the inputs, in order.
    """

    def __init__(self, name: str) -> None:
        self.name = identifier(name)
        self.node = ""
        self.taken = {self.name}
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[FusionNode] = []
        self.inputs: list[str] = []
        self._node_names: set[str] = set()

    def error(self, code: str, text: str, hint: str = "") -> AutofuseError:
        """A diagnostic at the client's node."""
        return AutofuseError.of(code, text, where=Where(node=self.node), hint=hint)

    def input(
        self,
        wanted: str,
        dtype: DType,
        shape: Shape,
        strides: Shape | None = None,
        offset: Expr | None = None,
    ) -> Tensor:
        """A new input, called ``wanted`` if no tensor is yet."""
        name = identifier(wanted, self.taken)
        tensor = Tensor(name, dtype, shape, strides, offset, origin=self._origin())
        self.tensors[name] = tensor
        self.inputs.append(name)
        return tensor

    def op(
        self, name: str, operands: Sequence[Value], attrs: Mapping[str, Any] | None = None
    ) -> Value:
        """The result of an op of the registry.

        Raises:
            AutofuseError: the op does not take these operands.
        """
        row, given = registry.lookup(name), dict(attrs or {})
        constants = [o for o in operands if isinstance(o, Constant)]
        foldable = row.reference is not None and row.compute_type == "elewise"
        if operands and foldable and len(constants) == len(operands):
            return self._folded(row, constants, given)
        try:
            dtype, shape = infer_node(row, operands, given)
        except OpError as e:
            raise self.error(e.code, str(e), e.hint) from None
        except ExprError as e:
            raise self.error("AF1204", f"the shape of the result cannot be computed: {e}") from None
        tensor = Tensor(
            identifier(self.node or name, self.taken), dtype, shape, origin=self._origin()
        )
        self.tensors[tensor.name] = tensor
        inputs = tuple(o.name if isinstance(o, Tensor) else o for o in operands)
        node = identifier(f"{self.node}_{name}", self._node_names)
        self.nodes.append(FusionNode(node, row.name, inputs, (tensor.name,), given, self._origin()))
        return tensor

    def _folded(
        self, row: definition.OpDef, constants: Sequence[Constant], attrs: Mapping[str, Any]
    ) -> Constant:
        dtypes = [self.dtype(c) for c in constants]
        try:
            dtype = row.dtype_rule(dtypes, attrs)
        except OpError as e:
            raise self.error(e.code, str(e), e.hint) from None
        assert row.reference is not None
        with np.errstate(all="ignore"):
            known = with_source(attrs, row.attr_names(), dtypes[0].name)
            value = row.reference([np.asarray(c.value) for c in constants], known)
            rounded = np.asarray(value).astype(numpy_dtype(dtype))
        return Constant(_plain(rounded, dtype), dtype)

    def dtype(self, value: Value) -> DType:
        """The element type of a value; constants have one here."""
        assert value.dtype is not None
        return value.dtype

    def cast(self, value: Value, to: DType) -> Value:
        """The value in another element type; to bool: whether it is not 0."""
        return value if value.dtype == to else self.op("Cast", [value], {"dtype": to.name})

    def constant_as(self, constant: Constant, to: DType) -> Constant:
        """The same number in another element type.

        Raises:
            AutofuseError: AF1203, that type does not have it.
        """
        if constant.dtype == to:
            return constant
        with np.errstate(all="ignore"):
            value = _plain(np.asarray(constant.value).astype(numpy_dtype(to)), to)
        same = value == constant.value or (value != value and constant.value != constant.value)
        if to.kind in "iub" and not same:
            text = f"the constant {constant.value} does not fit {to}"
            raise self.error("AF1203", text, "Cast the other operand first")
        return Constant(value, to)

    def broadcast(self, value: Value, shape: Shape) -> Tensor:
        """The value with more elements, each a copy."""
        if isinstance(value, Tensor) and value.shape == shape:
            return value
        return self._tensor(self.op("Broadcast", [value], {"shape": shape}))

    def reshape(self, tensor: Tensor, shape: Shape) -> Tensor:
        """The same elements in the same order."""
        if tensor.shape == shape:
            return tensor
        return self._tensor(self.op("Reshape", [tensor], {"shape": shape}))

    def transpose(self, tensor: Tensor, perm: Sequence[int]) -> Tensor:
        """Dimension i of the result is dimension ``perm[i]``."""
        if list(perm) == sorted(perm):
            return tensor
        shape = tuple(tensor.shape[p] for p in perm)
        moved = [p for p in perm if tensor.shape[p] != 1]
        if moved == sorted(moved):  # only dimensions of one element move
            return self.reshape(tensor, shape)
        return self._tensor(self.op("Transpose", [tensor], {"perm": tuple(perm)}))

    def slice(self, tensor: Tensor, starts: Shape, shape: Shape) -> Tensor:
        """Elements ``starts`` to ``starts + shape``."""
        if tensor.shape == shape:
            return tensor
        return self._tensor(self.op("Slice", [tensor], {"starts": starts, "shape": shape}))

    def _tensor(self, value: Value) -> Tensor:
        assert isinstance(value, Tensor)
        return value

    def _origin(self) -> str:
        return "/" + "".join(c if c.isalnum() or c in "_./-" else "_" for c in self.node)


def _plain(value: np.ndarray, dtype: DType) -> int | float | bool:
    """A Python number; of the types of ml_dtypes too."""
    if dtype.kind == "f":
        return float(value)
    return bool(value) if dtype == BY_NAME["bool"] else int(value)
