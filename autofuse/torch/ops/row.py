"""What a row of the table of PyTorch's ops is, and what it gets to see of a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as PROMOTION
from torch._prims_common import elementwise_dtypes

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.torch.emit import Emitter, Number, Value
from autofuse.torch.refusal import RefusedError
from autofuse.torch.sizes import Shape

__all__ = ["ROWS", "Call", "Kind", "Row", "dtype_of", "row"]

Result: TypeAlias = "Value | Sequence[Value]"


class Kind(Enum):
    """What an op does to memory where PyTorch runs it."""

    #: It reads its operands and writes its results.
    COMPUTE = "compute"
    #: It makes another view of the memory of its first operand.
    VIEW = "view"
    #: It writes what follows from its attributes alone, and can be made again wherever it is needed.
    CREATE = "create"
    #: It copies without computing.
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Row:
    """One op of PyTorch.

    Attributes:
        name: ``aten.add.Tensor``.
        kind: what it does to memory.
        convert: adds its nodes; raises RefusedError.
    """

    name: str
    kind: Kind
    convert: Callable[[Call], Result]


@dataclass(slots=True)
class Call:
    """One node of PyTorch's graph with its operands.

    Attributes:
        node: the node.
        e: what results are made with.
        values: operands that are tensors.
        scalar: makes an operand of a number that is known at run time only, from its node and element type.
    """

    node: torch.fx.Node
    e: Emitter
    values: Mapping[torch.fx.Node, Value | Sequence[Value]]
    scalar: Callable[[Any, DType], Value]

    @property
    def meta(self) -> Any:
        """What PyTorch says of the result."""
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
        """An argument as the graph has it: a node, a number, a list."""
        if i < len(self.node.args):
            return self.node.args[i]
        return self.node.kwargs.get(name, default)

    def meta_of(self, i: int) -> Any:
        """What PyTorch says of an argument that is a tensor."""
        arg = self.node.args[i]
        assert isinstance(arg, torch.fx.Node)
        return arg.meta["val"]

    def x(self, i: int = 0) -> Value:
        """An argument that is a tensor."""
        return self.value(self.node.args[i])

    def value(self, arg: Any) -> Value:
        """The tensor of a node."""
        found = self.values.get(arg)
        if not isinstance(found, Value):
            raise RefusedError("an operand is no tensor")
        return found

    def expr(self, arg: Any) -> Expr:
        """A size: an int, or a node that is one."""
        return self.e.sizes.expr(arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg)

    def integer(self, arg: Any, what: str) -> int:
        """An int that has to be known now."""
        found = self.expr(arg).as_int()
        if found is None:
            raise RefusedError(f"{what} is known at run time only")
        return found

    def number(self, arg: Any, what: str) -> Number:
        """A number that has to be known now."""
        if isinstance(arg, int | float):
            return arg
        raise RefusedError(f"{what} is known at run time only")

    def promoted(
        self, *args: Any, kind: PROMOTION = PROMOTION.DEFAULT, to: DType | None = None
    ) -> list[Value]:
        """Operands, tensors or numbers, in the element type that PyTorch computes them in.

        Args:
            args: nodes or numbers.
            kind: PyTorch's rule.
            to: another element type.
        """
        if to is None:
            metas = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in args]
            wide, result = elementwise_dtypes(*metas, type_promotion_kind=kind)
            # Rows compute narrow floats wide where that matters; a comparison needs the common type.
            to = dtype_of(wide if result == torch.bool else result)
        return [self.cast(a, to) for a in args]

    def cast(self, arg: Any, dtype: DType) -> Value:
        """A node or a number as a tensor of an element type."""
        if isinstance(arg, torch.fx.Node):
            if isinstance(arg.meta["val"], torch.Tensor):
                return self.e.cast(self.value(arg), dtype)
            return self.scalar(arg, dtype)
        return self.e.full((), self.number(arg, "an operand"), dtype)


def dtype_of(dtype: torch.dtype) -> DType:
    """The element type of kernels.

    Raises:
        RefusedError: kernels do not hold it.
    """
    name = str(dtype).removeprefix("torch.")
    found = BY_NAME.get(name)
    if found is None or name == "mask":
        raise RefusedError(f"kernels do not hold {name}")
    return found


#: All rows, by the name of the op.
ROWS: dict[str, Row] = {}


def row(*names: str, kind: Kind = Kind.COMPUTE) -> Callable[[Any], Any]:
    """Register a converter under one or more ops."""

    def register(convert: Callable[[Call], Result]) -> Callable[[Call], Result]:
        for name in names:
            if name in ROWS:
                raise ValueError(f"{name} has two rows")
            ROWS[name] = Row(name, kind, convert)
        return convert

    return register
