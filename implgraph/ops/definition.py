"""Rows of the op registry.

A row gives name, arity, dtype rule, shape rule, NumPy reference, the Ascend C call (or the expansion into other ops),
the tmp-buffer rule and the cost row.  An architecture's file in ``autofuse/targets`` lists the calls that it lacks.
Frontends, inference, legalisation, code generation, the oracle and ``docs/support.md`` read rows; nothing else knows an
op by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from autofuse.base.wording import counted
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import DType

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "ANY",
    "Addends",
    "Attr",
    "Attrs",
    "Call",
    "Expansion",
    "OpDef",
    "OpError",
    "OpSink",
    "Shape",
]

Shape: TypeAlias = tuple[Expr, ...]
Attrs: TypeAlias = Mapping[str, Any]
DTypeRule: TypeAlias = Callable[[Sequence[DType], Attrs], DType]
ShapeRule: TypeAlias = Callable[[Sequence[Shape], Attrs], Shape]
#: Rule for values that are negative if an op reads out of bounds, each with the text of that error.
InsideRule: TypeAlias = Callable[[Sequence[Shape], Attrs], Iterator[tuple[Expr, str]]]
ExtentRule: TypeAlias = Callable[[Sequence[Shape], Attrs], tuple[Expr, ...]]
Reference: TypeAlias = "Callable[[Sequence[np.ndarray], Attrs], np.ndarray]"
TmpRule: TypeAlias = Callable[[Expr, DType], Expr]

#: Upper end of an arity without limit.
ANY = 1 << 16


class OpError(ValueError):
    """A dtype, shape or attribute that a row rejects.  ``code`` is a diagnostic code."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute of an op; required if ``default`` is None.

    ``kind``: ``int float bool str dtype shape ints``, or, for ops that users cannot write, ``size``: an expression.
    """

    name: str
    kind: str
    default: Any = None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """Spelling of an op in Ascend C.

    Attributes:
        api: name of the function, in Ascend C or ``device_templates/``, without the part that distinguishes its two
            forms.
        style: argument layout: a key of ``codegen.ir.intrinsics.STYLES``, or ``device`` if the entry of ``api`` in
            ``codegen.functions`` defines it.
        dtypes: supported element types (of the first tensor operand).
        as_type: type to which tensors are reinterpreted first (bit moves on 32- and 16-bit data), by dtype name.
        tmp: bytes of ``sharedTmpBuffer`` for n elements, or None.
        inplace: the destination may be one of the sources (documented, or element-wise level-2 calls).
        whole_repeats: the element count of a call is rounded up to whole repeats of the vector unit.
    """

    api: str
    style: str
    dtypes: frozenset[str]
    as_type: Mapping[str, str] = field(default_factory=dict)
    tmp: TmpRule | None = None
    inplace: bool = True
    whole_repeats: bool = False


@dataclass(frozen=True, slots=True)
class Addends:
    """Growth of the error of a result of n operands, in units of 2^-24 of ``of``.

    It is ``own`` plus log2(n) + ``steps`` + ``roots`` sqrt(n), or plus n - 1 if that is less: the number of roundings
    of the first operand when operands are added one after another.
    """

    steps: float
    roots: float = 0.0
    own: float = 0.0
    of: str = "the sum of their magnitudes"

    def __call__(self, n: int) -> float:
        """Return the units for n operands."""
        if n < 2:
            return self.own
        return self.own + min(n - 1, math.log2(n) + self.steps + self.roots * math.sqrt(n))

    def __str__(self) -> str:
        if math.isinf(self.roots):
            return f"n - 1 times 2^-24 of {self.of}"
        terms = ["log2(n)", *(f"{x:g}" for x in (self.steps + self.own,) if x)]
        terms += [f"{self.roots:g} sqrt(n)"] if self.roots else []
        return f"{' + '.join(terms)} times 2^-24 of {self.of}"


class OpSink(Protocol):
    """Builder with which an expansion emits nodes: operands are opaque handles of the rewriter."""

    def emit(
        self, op: str, inputs: Sequence[Any], attrs: Attrs | None = None, dtype: DType | None = None
    ) -> Any:
        """Add a node; ``dtype`` overrides the row's dtype rule (e.g. a Cast's target)."""

    def constant(self, value: float | int, dtype: DType) -> Any:
        """Return a compile-time scalar operand."""

    def dtype_of(self, operand: Any) -> DType:
        """Return the element type of an operand."""

    def constant_of(self, operand: Any) -> float | int | None:
        """Return the value of a compile-time scalar operand, or None."""

    def is_uniform(self, operand: Any) -> bool:
        """Return True if the operand is one value for the whole iteration space: a constant or a one-element tensor."""

    def takes(self, op: str, dtype: DType) -> bool:
        """Return True if the chip has a call for this op on this dtype as it is."""


#: Rewrites one op into others; returns the operand that replaces the op's result, or None to decline.
#: Tried before ``call``: a row may have both (Add has a call, and folds a uniform operand into Adds).
Expansion: TypeAlias = Callable[[OpSink, Sequence[Any], Attrs], Any]


@dataclass(frozen=True, slots=True)
class OpDef:
    """One row.

    Attributes:
        name: registry name, CamelCase.
        arity: smallest and largest number of inputs.
        dtype_rule: result dtype from input dtypes; raises OpError.
        shape_rule: result shape from input shapes; raises OpError.
        compute_type: ``elewise broadcast view reduce scan iota load store data output scalar workspace`` as printed in
            the ImplGraph, ``transpose pick offsets`` around copies there; ``transpose slice concat pad composite
            gather`` for ops that lowering removes.
        reference: NumPy function on float64 (floats) or exact integer arrays; shapes broadcast as in NumPy.
        attrs: accepted attributes.
        call: Ascend C call, with all dtypes that it takes on any architecture; None for ops that never reach the
            device.
        expand: rewriting into other ops; tried first and may decline.
        promote: dtype name -> dtype name in which to compute when neither call nor expansion takes the dtype.
        short: rewriting of float32 operands used instead of ``expand`` where operands and result are rounded to 16
            bits: takes fewer calls and adds at most 0.15 16-bit ulp to the rounding error.
        cost: row of the target's vector cost table.
        ulp: error of one application in units in the last place of the result dtype, assumed by the comparison.
        absolute: error of one application in addition to ``ulp``, for functions whose zeros are not floats.
        addends: error in addition to ``ulp`` that grows with the number of operands of one result.
        special: True if it takes several times as long as a sum: functions of floats, and quotients.
        errors: propagation of the operands' errors: ``relative``, the relative error does not grow; ``added``, absolute
            errors add up; empty, they may grow.
        each_step: for floats, the formula or definition requires each product to be rounded before it is added.
        exact_quotients: for floats, the formula or definition requires correctly rounded quotients.
        nonempty: sizes, from input shapes, that must not be 0, since there would be no result; the host rejects such a
            call.
        inside: values, from input shapes, that must not be negative; otherwise the host rejects the call.
        user: may appear in a FusionGraph.
        aliases: names used by other dialects (AKG, ONNX-like spellings).
        doc: one line for docs/support.md.
        source: source of a composition: the identity or the approximation.
    """

    name: str
    arity: tuple[int, int]
    dtype_rule: DTypeRule
    shape_rule: ShapeRule
    compute_type: str
    reference: Reference | None = None
    attrs: tuple[Attr, ...] = ()
    call: Call | None = None
    expand: Expansion | None = None
    promote: Mapping[str, str] = field(default_factory=dict)
    short: Expansion | None = None
    cost: str = "binary"
    ulp: float = 0.5
    absolute: float = 0.0
    addends: Addends | None = None
    special: bool = False
    errors: str = ""
    each_step: bool = False
    exact_quotients: bool = False
    nonempty: ExtentRule | None = None
    inside: InsideRule | None = None
    user: bool = True
    aliases: tuple[str, ...] = ()
    doc: str = ""
    source: str = ""

    def attr_names(self) -> frozenset[str]:
        """The names of all attributes."""
        return frozenset(a.name for a in self.attrs)

    def takes(self, noun: str = "input") -> str:
        """The number of inputs in words: ``1 input``, ``2 to 3 inputs``, ``1 or more inputs``."""
        fewest, most = self.arity
        if fewest == most:
            return counted(fewest, noun)
        return f"{fewest} or more {noun}s" if most >= ANY else f"{fewest} to {most} {noun}s"
