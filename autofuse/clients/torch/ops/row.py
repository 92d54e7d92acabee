"""Rows of the table of PyTorch's ops, and the view of a node passed to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as PROMOTION
from torch._prims_common import elementwise_dtypes

from autofuse.clients.torch.emit import FLOAT32, Emitter, Number, Value
from autofuse.clients.torch.refusal import RefusedError
from autofuse.clients.torch.sizes import Shape
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import BY_NAME, DType

__all__ = ["ROWS", "Call", "Kind", "Numbers", "Row", "dtype_of", "row"]

Result: TypeAlias = "Value | Sequence[Value]"


class Kind(Enum):
    """Effect of an op on memory in PyTorch."""

    #: It reads its operands and writes its results.
    COMPUTE = "compute"
    #: It returns a view of its first operand.
    VIEW = "view"
    #: It writes values determined by its attributes alone, and can be recomputed wherever it is needed.
    CREATE = "create"
    #: It copies without computing.
    COPY = "copy"


class Numbers(Enum):
    """Treatment of a number operand next to 16-bit tensors, as in PyTorch's CPU kernels.

    A number is a Python number, a symbol, or a one-element tensor with another type than the op computes in.
    """

    #: It is rounded to the type of the tensors.
    ROUNDED = "rounded"
    #: As the second operand it is float32, with the result computed in float32 and rounded once; otherwise rounded.
    SECOND_WIDE = "second wide"
    #: It is float32, with the result computed in float32 and rounded once.
    WIDE = "wide"


@dataclass(frozen=True, slots=True)
class Row:
    """One op of PyTorch.

    Attributes:
        name: ``aten.add.Tensor``.
        kind: its effect on memory.
        numbers: treatment of a number next to 16-bit tensors.
        convert: adds its nodes; raises RefusedError.
    """

    name: str
    kind: Kind
    numbers: Numbers
    convert: Callable[[Call], Result]


@dataclass(slots=True)
class Call:
    """One node of PyTorch's graph with its operands.

    Attributes:
        node: the node.
        e: emitter of the results.
        values: operands that are tensors.
        scalar: creates an operand for a number known only at run time, from its node and element type.
        numbers: treatment of a number next to 16-bit tensors.
    """

    node: torch.fx.Node
    e: Emitter
    values: Mapping[torch.fx.Node, Value | Sequence[Value]]
    scalar: Callable[[Any, DType], Value]
    numbers: Numbers = Numbers.ROUNDED

    @property
    def meta(self) -> Any:
        """PyTorch's metadata of the result: ``meta["val"]``."""
        return self.node.meta["val"]

    @property
    def dtype(self) -> DType:
        """Element type of the result."""
        return dtype_of(self.meta.dtype)

    @property
    def shape(self) -> Shape:
        """Shape of the result."""
        return self.e.sizes.shape(self.meta.shape)

    def arg(self, i: int, name: str = "", default: Any = None) -> Any:
        """Return an argument as in the graph: a node, a number, a list."""
        if i < len(self.node.args):
            return self.node.args[i]
        return self.node.kwargs.get(name, default)

    def meta_of(self, i: int) -> Any:
        """Return PyTorch's metadata of an argument that is a tensor."""
        arg = self.node.args[i]
        assert isinstance(arg, torch.fx.Node)
        return arg.meta["val"]

    def x(self, i: int = 0) -> Value:
        """Return a tensor argument."""
        return self.value(self.node.args[i])

    def value(self, arg: Any) -> Value:
        """Return the tensor of a node."""
        found = self.values.get(arg)
        if not isinstance(found, Value):
            raise RefusedError("an operand is not a tensor")
        return found

    def size(self, arg: Any) -> Any:
        """Return an integer argument as PyTorch has it, an int or a SymInt, also if a node produces it."""
        return arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg

    def expr(self, arg: Any) -> Expr:
        """Return a size (an int, a SymInt, or a node of one) as an expression."""
        return self.e.sizes.expr(self.size(arg))

    def integer(self, arg: Any, what: str) -> int:
        """Return an int that must be known at compile time."""
        found = self.expr(arg).as_int()
        if found is None:
            raise RefusedError(f"{what} is known only at run time")
        return found

    def number(self, arg: Any, what: str) -> Number:
        """Return a number that must be known at compile time."""
        if isinstance(arg, int | float):
            return arg
        raise RefusedError(f"{what} is known only at run time")

    def promoted(
        self, *args: Any, kind: PROMOTION = PROMOTION.DEFAULT, to: DType | None = None
    ) -> list[Value]:
        """Return operands, tensors or numbers, in the element type in which PyTorch computes.

        Args:
            args: nodes or numbers.
            kind: PyTorch's promotion rule.
            to: another element type.
        """
        if to is None:
            metas = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in args]
            # A comparison computes in the common type of its operands.
            rule = PROMOTION.DEFAULT if kind is PROMOTION.ALWAYS_BOOL else kind
            to = dtype_of(elementwise_dtypes(*metas, type_promotion_kind=rule)[1])
        if self.numbers is Numbers.SECOND_WIDE and len(args) > 1 and self._loses(args[1], to):
            to = FLOAT32
        return [self.cast(a, to) for a in args]

    def widened(self, *args: Any, kind: PROMOTION = PROMOTION.DEFAULT) -> list[Value]:
        """Return promoted operands of a multi-step op: floats in float32, so that only the result is rounded."""
        return [self._wide(x) for x in self.promoted(*args, kind=kind)]

    def factor(self, arg: Any, x: Value) -> Value:
        """Return a number of the op (``alpha``, ``value``, a weight) for steps with a widened operand.

        Args:
            arg: the number.
            x: an operand from :meth:`widened`.
        """
        if self.numbers is Numbers.WIDE:
            return self.cast(arg, x.dtype)
        return self._wide(self.fitting(arg, self.dtype))

    def fitting(self, arg: Any, dtype: DType) -> Value:
        """Return a number as a tensor; one too large for the type is left to PyTorch, which raises an error."""
        found = self.cast(arg, dtype)
        if isinstance(arg, int | float) and math.isfinite(arg):
            wrapped = (arg, arg + (1 << dtype.bits)) if dtype.kind == "u" else (arg,)
            lost = found.number not in wrapped if dtype.kind in "iu" else math.isinf(found.number)
            if lost:
                raise RefusedError(f"the number {arg} is too large for {dtype}")
        return found

    def cast(self, arg: Any, dtype: DType) -> Value:
        """Return a node or a number as a tensor of an element type."""
        if isinstance(arg, torch.fx.Node):
            if isinstance(arg.meta["val"], torch.Tensor):
                return self.e.cast(self.value(arg), dtype)
            return self.scalar(arg, dtype)
        return self.e.full((), self.number(arg, "an operand"), dtype)

    def _wide(self, x: Value) -> Value:
        return self.e.cast(x, FLOAT32) if x.dtype.kind == "f" else x

    def _loses(self, arg: Any, dtype: DType) -> bool:
        """Return True if an operand is a number that a 16-bit type may not represent exactly."""
        if dtype.kind != "f" or dtype.bits != 16:
            return False
        number: Number | None = arg if isinstance(arg, int | float) else None
        if isinstance(arg, torch.fx.Node) and isinstance(t := arg.meta["val"], torch.Tensor):
            if any(not isinstance(s, int) or s != 1 for s in t.shape) or dtype_of(t.dtype) == dtype:
                return False
            x = self.value(arg)
            number = x.number if x.tensor is None else None
        return number is None or self.e.full((), number, dtype).number != number


def dtype_of(dtype: torch.dtype) -> DType:
    """Return the kernels' element type for PyTorch's.

    Raises:
        RefusedError: kernels do not support it.
    """
    name = str(dtype).removeprefix("torch.")
    found = BY_NAME.get(name)
    if found is None or name == "mask":
        raise RefusedError(f"kernels do not hold {name}")
    return found


#: All rows by op name.
ROWS: dict[str, Row] = {}


def row(
    *names: str,
    kind: Kind = Kind.COMPUTE,
    numbers: Numbers = Numbers.ROUNDED,
) -> Callable[[Any], Any]:
    """Register a converter under one or more ops."""

    def register(convert: Callable[[Call], Result]) -> Callable[[Call], Result]:
        for name in names:
            if name in ROWS:
                raise ValueError(f"{name} has two rows")
            ROWS[name] = Row(name, kind, numbers, convert)
        return convert

    return register
