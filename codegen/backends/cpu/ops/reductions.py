"""Accumulation of results in C++: accumulator types, steps, and OpenMP clauses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autofuse.codegen.backends.cpu.ops.spelling import TYPES, literal
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.rows.reductions import neutral

__all__ = ["DECLARED", "Reduction", "accumulator", "first", "reduction"]


@dataclass(frozen=True, slots=True)
class Reduction:
    """One reduction for a kind of element type.

    Attributes:
        step: statement that accumulates the value ``{x}`` into ``{a}``.
        clause: its name in OpenMP.
    """

    step: str
    clause: str


_SUM, _PRODUCT = Reduction("{a} += {x};", "+"), Reduction("{a} *= {x};", "*")


def _extreme(name: str, sign: str, declared: str) -> dict[tuple[str, bool], Reduction]:
    op = f"Reduce{name.capitalize()}"
    floats = Reduction(f"{{a}} = simd::{name}({{a}}, {{x}});", declared)
    step = f"{{a}} = {{a}} {sign} {{x}} ? {{a}} : {{x}};"
    return {(op, True): floats, (op, False): Reduction(step, name)}


_TABLE: Mapping[tuple[str, bool], Reduction] = {
    **{("ReduceSum", kind): _SUM for kind in (True, False)},
    **{("ReduceProd", kind): _PRODUCT for kind in (True, False)},
    **_extreme("max", ">", "largest"),
    **_extreme("min", "<", "smallest"),
}

#: Declarations of reductions that OpenMP lacks; they follow the functions that they call.
DECLARED: Mapping[str, str] = {
    name: f"#pragma omp declare reduction({name} : float : omp_out = simd::{f}(omp_out, omp_in))"
    f" initializer(omp_priv = {start})\n"
    for name, f, start in (("largest", "max", "-INFINITY"), ("smallest", "min", "INFINITY"))
}


def reduction(op: str, dtype: DType) -> Reduction:
    """Return the C++ form of a reduction (an op of ``REDUCES``) for elements of a type."""
    return _TABLE[op, dtype.kind == "f"]


def accumulator(op: str, dtype: DType, many: bool) -> str:
    """Return the C++ type in which elements are accumulated.

    Sums of integers wrap, so they are unsigned with at least 32 bits.  Sums and products of many floats are ``double``:
    a single ``float`` loses small addends, and rounds equal addends in one direction.

    Args:
        op: an op of ``REDUCES``, or Scan.
        dtype: dtype of the elements.
        many: True if one result takes a large number of elements.
    """
    if op in ("ReduceMax", "ReduceMin"):
        return TYPES[dtype.name]
    if dtype.kind != "f":
        return TYPES[_wraps(dtype).name]
    return "double" if many else TYPES[dtype.name]


def first(op: str, dtype: DType, many: bool) -> str:
    """Return the initial value of an accumulator; arguments as for ``accumulator``."""
    if accumulator(op, dtype, many) == "double":
        return "1.0" if op == "ReduceProd" else "0.0"
    if dtype.kind == "f" or op in ("ReduceMax", "ReduceMin"):
        return literal(0 if op == "Scan" else neutral(op, dtype), dtype)
    held = _wraps(dtype)
    return literal(0 if op == "Scan" else int(neutral(op, dtype)) % (1 << held.bits), held)


def _wraps(dtype: DType) -> DType:
    return BY_NAME[f"uint{max(dtype.bits, 32)}"]
