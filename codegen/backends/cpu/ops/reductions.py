"""Accumulation of results in C++: the type of an accumulator, a step of it, and its name for OpenMP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autofuse.codegen.backends.cpu.ops.spelling import TYPES, literal
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.rows.reductions import neutral

__all__ = ["DECLARED", "Reduction", "accumulator", "first", "reduction"]


@dataclass(frozen=True, slots=True)
class Reduction:
    """One reduction of a kind of element types.

    Attributes:
        step: statement that takes the value ``{x}`` into the accumulator ``{a}``.
        clause: what OpenMP calls it.
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

#: Reductions that OpenMP does not have: how they are declared, behind the functions that they call.
DECLARED: Mapping[str, str] = {
    name: f"#pragma omp declare reduction({name} : float : omp_out = simd::{f}(omp_out, omp_in))"
    f" initializer(omp_priv = {start})\n"
    for name, f, start in (("largest", "max", "-INFINITY"), ("smallest", "min", "INFINITY"))
}


def reduction(op: str, dtype: DType) -> Reduction:
    """Return the C++ form of a reduction (an op of ``REDUCES``) for elements of a type."""
    return _TABLE[op, dtype.kind == "f"]


def accumulator(op: str, dtype: DType, many: bool) -> str:
    """The type of C++ in which elements are accumulated.

    Sums of integers wrap, so they are unsigned ones of 32 bits at least.  Sums and products of many floats are
    ``double``: in a single ``float`` small addends get lost, and roundings of equal addends all go one way.

    Args:
        op: of ``REDUCES``, or Scan.
        dtype: of the elements.
        many: one result takes a large number of them.
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
