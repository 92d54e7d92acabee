"""View of a node for the rows of the table: operands and sizes as Python source, dtypes and attributes unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from autofuse.codegen.backends.triton.signature import torch_dtype
from autofuse.implgraph.expr.expression import Expr, IntLike
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import Constant

__all__ = ["CARRIED", "Form", "Operation", "Row", "number"]

#: Integers for which PyTorch lacks most arithmetic: computed in int64, which wraps to the same bits.
CARRIED = frozenset(("uint16", "uint32", "uint64"))
#: XOR with this maps unsigned 64-bit order to signed order.
_LEAST = -(1 << 63)
_SHORT = frozenset(("float16", "bfloat16"))

#: Expression of an operation: a template with the operands, or a function.
Form: TypeAlias = "str | Callable[[Operation], str]"


@dataclass(frozen=True, slots=True)
class Row:
    """Rule for writing an op as Python.

    Attributes:
        form: expression with placeholders ``{0}``, ``{1}`` for the operands.
        wide: compute 16-bit floats in float32, because the form has several steps or PyTorch has no kernel for them.
        tensors: operands that must be tensors even if the graph has a constant.
        moves: the op returns elements of its operands, of any dtype, and possibly a view.
        ordered: the result depends on the order of integers.
        divides: the result depends on whether integers are signed, not only on their order.
    """

    form: Form
    wide: bool = False
    tensors: tuple[int, ...] = ()
    moves: bool = False
    ordered: bool = False
    divides: bool = False


def number(value: float | int | bool) -> str:
    """Return a constant as Python source, atomic."""
    if isinstance(value, bool | int):
        return str(value) if value >= 0 else f"({value})"
    text = repr(float(value))
    if text in ("nan", "inf"):
        return f'float("{text}")'
    if text == "-inf":
        return '(-float("inf"))'
    return f"({text})" if text.startswith("-") else text


@dataclass(frozen=True)
class Operation:
    """A node.

    Attributes:
        row: rule for writing it.
        attrs: attributes of the node.
        operands: constants, or names in the function.
        dtypes: dtypes of the operands.
        shapes: shapes of the operands.
        dtype, shape: dtype and shape of the result.
        size: prints a size.
        let: writes an assignment and returns the assigned name.
        device: device of new tensors, as Python source.
        least: the smallest value of every symbol.
    """

    row: Row
    attrs: Mapping[str, Any]
    operands: tuple[str | Constant, ...]
    dtypes: tuple[DType, ...]
    shapes: tuple[tuple[Expr, ...], ...]
    dtype: DType
    shape: tuple[Expr, ...]
    size: Callable[[Expr], str]
    let: Callable[[str], str]
    device: str
    least: Mapping[str, int]

    # operands ---------------------------------------------------------------------------------
    def __getitem__(self, i: int) -> str:
        """Return an operand, atomic: a tensor in the computation's dtype, or a number if the row accepts one."""
        x = self.operands[i]
        if isinstance(x, Constant):
            return self.tensor(i) if i in self._as_tensors() else self._number(x, self.dtypes[i])
        return self._carried(x, self.dtypes[i])

    def tensor(self, i: int) -> str:
        """Return an operand as a tensor, even if it is a constant."""
        x = self.operands[i]
        if not isinstance(x, Constant):
            return self[i]
        d = self.dtypes[i]
        kind = "torch.int64" if d.name in CARRIED and not self.row.moves else torch_dtype(d)
        if self.row.wide and d.name in _SHORT:
            kind = "torch.float32"
        return f"torch.full((), {self._number(x, d)}, dtype={kind}, device={self.device})"

    def is_constant(self, i: int) -> bool:
        """Return True if an operand is a constant of the graph."""
        return isinstance(self.operands[i], Constant)

    def value(self, i: int) -> float | int | bool:
        """Return the value of a constant operand."""
        x = self.operands[i]
        assert isinstance(x, Constant)
        return x.value

    def _as_tensors(self) -> tuple[int, ...]:
        # With numbers only, Python would compute the result.
        alone = all(isinstance(x, Constant) for x in self.operands)
        return (*self.row.tensors, 0) if alone else self.row.tensors

    def _number(self, x: Constant, d: DType) -> str:
        if d.kind == "f":
            return number(float(x.value))
        return number(bool(x.value)) if d.kind == "b" else self.in_order(int(x.value), d)

    def _carried(self, text: str, d: DType) -> str:
        if self.row.moves:
            return text
        if d.name in CARRIED:
            wide = f"{text}.to(torch.int64)"
            return f"({wide} ^ {number(_LEAST)})" if self._is_turned(d) else wide
        return f"{text}.float()" if self.row.wide and d.name in _SHORT else text

    def _is_turned(self, d: DType) -> bool:
        """Return True if unsigned 64-bit numbers are mapped to signed ones in the same order."""
        return self.row.ordered and d.name == "uint64"

    def in_order(self, value: float | int, d: DType | None = None) -> str:
        """Return a number of the result's dtype, or of ``d``, in the computation's representation."""
        d = d or self.dtype
        return number(value + _LEAST if self._is_turned(d) else value)

    @property
    def carried(self) -> bool:
        """True if the computation is in int64 instead of the operands' dtype."""
        return self.dtypes[0].name in CARRIED

    @property
    def dtype_text(self) -> str:
        """Dtype of the result."""
        return torch_dtype(self.dtype)

    @property
    def carrier_text(self) -> str:
        """Dtype of the form's value."""
        return "torch.int64" if self.dtype.name in CARRIED else self.dtype_text

    def text(self) -> str:
        """Return the node as an expression with the dtype of the result."""
        row = self.row
        if isinstance(row.form, str):
            made = row.form.format(*(self[i] for i in range(len(self.operands))))
        else:
            made = row.form(self)
        if row.moves:
            return made
        if self.dtype.name in CARRIED:
            made = f"({made}) ^ {number(_LEAST)}" if self._is_turned(self.dtype) else made
            return f"({made}).to({self.dtype_text})"
        if row.wide and self.dtype.name in _SHORT:
            return f"({made}).to({self.dtype_text})"
        return made

    # sizes ------------------------------------------------------------------------------------
    def sizes(self, shape: Sequence[IntLike]) -> str:
        """Return a shape as a tuple."""
        texts = [self.size(Expr.of(e)) for e in shape]
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"

    def atomic(self, e: IntLike) -> str:
        """Return a size that can be an operand of any operator."""
        text = self.size(Expr.of(e))
        return text if text.isidentifier() or text.isdigit() else f"({text})"

    def may_be_zero(self, e: Expr) -> bool:
        """Return True if a size can be 0."""
        return e.evaluate(dict(self.least)) < 1
