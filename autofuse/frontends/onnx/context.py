"""View of a node for the converter of its op, and the table of converters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.frontends.onnx.emit import Emitter
from autofuse.frontends.onnx.values import Array, Value
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import DType

__all__ = ["CONVERTERS", "Converter", "Node", "Result", "converter"]

Result: TypeAlias = "Value | Sequence[Value]"


@dataclass(slots=True)
class Node:
    """One ONNX node with its operands.

    Attributes:
        op_type: the op.
        version: version of the op: the operator set that introduced its current meaning.
        inputs: operands; None if omitted.
        attrs: attributes as Python values; tensors as arrays.
        outputs: number of results up to the last one that is used.
        e: the emitter of results.
    """

    op_type: str
    version: int
    inputs: Sequence[Value | None]
    attrs: Mapping[str, Any]
    outputs: int
    e: Emitter

    def x(self, i: int = 0) -> Value:
        """Return a required operand.

        Raises:
            AutofuseError: AF1202, it is missing.
        """
        found = self.opt(i)
        if found is None:
            raise self.e.error("AF1202", f"operand {i} is missing")
        return found

    def opt(self, i: int) -> Value | None:
        """Return an optional operand, or None."""
        return self.inputs[i] if i < len(self.inputs) else None

    def all(self) -> list[Value]:
        """Return all operands."""
        return [self.x(i) for i in range(len(self.inputs))]

    def known(self, i: int, what: str) -> Array:
        """Return the elements of an operand that determines shapes.

        Raises:
            NeededError: they are not known.
        """
        return self.e.elements(self.x(i), f"{what} (operand {i} of {self.op_type})")

    def sizes(self, i: int, what: str) -> tuple[Expr, ...]:
        """Return the elements of such an operand as sizes."""
        return tuple(
            Expr.of(v if isinstance(v, Expr) else int(v)) for v in self.known(i, what).reshape(-1)
        )

    def ints(self, i: int, what: str) -> list[int]:
        """Return the elements of such an operand as numbers; symbols are refused."""
        out = [s.as_int() for s in self.sizes(i, what)]
        if any(n is None for n in out):
            raise self.error("AF1205", f"{what} depends on a size that is not fixed")
        return [n for n in out if n is not None]

    def axis(self, value: int, rank: int) -> int:
        """Return an axis counted from the front.

        Raises:
            AutofuseError: AF1205, there is no such axis.
        """
        if not -rank <= value < max(rank, 1):
            raise self.error("AF1205", f"there is no axis {value} in {counted(rank, 'dimension')}")
        return value + rank if value < 0 else value

    def axes(self, i: int, rank: int) -> tuple[int, ...] | None:
        """Return the attribute ``axes``, in later versions operand i, sorted; None if absent."""
        if self.opt(i) is not None:
            values = self.ints(i, "the axes")
        elif "axes" in self.attrs:
            values = [int(v) for v in self.attrs["axes"]]
        else:
            return None
        return tuple(sorted({self.axis(v, rank) for v in values}))

    def dtype(self, i: int = 0) -> DType:
        """Return the element type of an operand."""
        return self.e.dtype(self.x(i))

    def size(self, x: Value, axis: int) -> int:
        """Return a size that must be a number.

        Raises:
            AutofuseError: AF1204, it is a symbol.
        """
        n = x.shape[axis].as_int()
        if n is None:
            raise self.error(
                "AF1204", f"the size of axis {axis} must be fixed, not {x.shape[axis]}"
            )
        return n

    def error(self, code: str, text: str, hint: str = "") -> AutofuseError:
        """Return a diagnostic at this node."""
        return self.e.error(code, text, hint)


Converter: TypeAlias = Callable[[Node], Result]

#: ONNX op -> its conversion to ops of autofuse.
CONVERTERS: dict[str, Converter] = {}


def converter(*names: str) -> Callable[[Converter], Converter]:
    """Register a converter under one or more ops."""

    def register(function: Converter) -> Converter:
        for name in names:
            if name in CONVERTERS:
                raise ValueError(f"{name} has two converters")
            CONVERTERS[name] = function
        return function

    return register
