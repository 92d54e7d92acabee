"""Conventions that all generated files share: the order of parameters and the fields of the tiling data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring_ascii as quoted

from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.expr_cpp import check_identifier, int_literal, to_cpp
from autofuse.codegen.lower.names import parameter_names
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import Expr, ExprError, Func
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.result import ScheduleResult

__all__ = [
    "Field",
    "SymbolRow",
    "all_impls",
    "c_string",
    "log_sizes",
    "overflow_guards",
    "pointer_parameters",
    "symbol_arguments",
    "symbol_expr_names",
    "symbol_parameters",
    "symbol_rows",
    "tiling_fields",
]

#: Products above this are guarded at run time; `autofuse::ProductFits` has the same limit.
_SAFE = 1 << 60
#: Parameters, local variables and constants of the generated host functions that take symbols.
_OWN_NAMES = frozenset(
    {
        "block_dim",
        "call",
        "data",
        "kPlan",
        "kSymbols",
        "kTuned",
        "key",
        "limit",
        "memo",
        "num_outputs",
        "outputs",
        "rc",
        "tiling_data",
    }
    | {"workspace_size"}
)


@frozen
class Field:
    """One member of ``AutofuseTilingData``."""

    name: str
    ctype: str
    default: int
    meaning: str


@frozen
class SymbolRow:
    """A symbol of the graph, in the form the templates need."""

    index: int
    name: str
    parameter: str
    low: str
    high: str


def all_impls(results: Iterable[ScheduleResult]) -> tuple[ImplGraph, ...]:
    """Return every template of every group of every result, in order."""
    return tuple(impl for r in results for g in r.groups for impl in g.impls)


def tiling_fields(graph: FusionGraph, results: Iterable[ScheduleResult]) -> tuple[Field, ...]:
    """Return the members of ``AutofuseTilingData``, in order.

    Raises:
        AutofuseError: AF1106, if a symbol of the graph has the name of another member.
    """
    fields = [
        Field("tiling_key", "uint32_t", 0, "template of every group"),
        Field("block_dim", "uint32_t", 1, "number of cores"),
    ]
    taken = {f.name for f in fields}
    for s in graph.symbols:
        if s.name in taken:
            raise AutofuseError.of("AF1106", f"symbol {s.name!r} has the name of a tiling field")
        taken.add(s.name)
        fields.append(Field(check_identifier(s.name), "int64_t", 0, "size given by the caller"))
    seen: set[str] = set()
    for impl in all_impls(results):
        for name, meaning in (
            (impl.tiling.opened.symbol, "length of a tile"),
            (impl.tiling.block_size, "tiles per core"),
            (impl.tiling.first_core, "core with the first tiles"),
        ):
            if name in taken:
                raise AutofuseError.of("AF1106", f"symbol {name!r} has the name of a tiling field")
            if name is not None and name not in seen:
                seen.add(name)
                default = 0 if name == impl.tiling.first_core else 1
                fields.append(Field(check_identifier(name), "int64_t", default, meaning))
    return tuple(fields)


def pointer_parameters(graph: FusionGraph) -> tuple[str, ...]:
    """Return the kernel's parameters before the tiling data: inputs, outputs, workspace."""
    return (*parameter_names(graph).names, "workspace")


def symbol_rows(graph: FusionGraph) -> tuple[SymbolRow, ...]:
    """Return the symbols with their ranges as C++ literals."""
    return tuple(
        SymbolRow(
            i, check_identifier(s.name), _parameter(s.name), int_literal(s.min), int_literal(s.max)
        )
        for i, s in enumerate(graph.symbols)
    )


def symbol_parameters(graph: FusionGraph) -> str:
    """Return ``int64_t s0, int64_t s1, `` with the trailing comma; empty without symbols."""
    return "".join(f"int64_t {_parameter(s.name)}, " for s in graph.symbols)


def symbol_arguments(graph: FusionGraph) -> str:
    """Return ``s0, s1, `` with the trailing comma; empty without symbols."""
    return "".join(f"{_parameter(s.name)}, " for s in graph.symbols)


def log_sizes(graph: FusionGraph) -> str:
    """Return ``{"s0", s0}, {"s1", s1}``: the sizes of a call under their user-visible names, for the log."""
    return ", ".join(f"{{{c_string(s.label)}, {_parameter(s.name)}}}" for s in graph.symbols)


def _parameter(symbol: str) -> str:
    """Return a symbol's parameter name, distinct from the host functions' own names."""
    return f"{symbol}_symbol" if symbol in _OWN_NAMES else check_identifier(symbol)


def c_string(text: str) -> str:
    """Return a C string literal; ``?`` replaces anything but printable ASCII."""
    printable = text.isascii() and text.isprintable()
    plain = text if printable else "".join(c if " " <= c <= "~" else "?" for c in text)
    # Consecutive question marks could form a trigraph.
    text = quoted(plain)
    return re.sub(r"\?(?=\?)", r"?\\", text) if "??" in text else text


def overflow_guards(
    values: Iterable[Expr], ranges: Mapping[str, tuple[int, int]], names: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the arguments of ``ProductFits`` for every product that may exceed 64 bits.

    Each argument lists the factors of one product; products inside a function precede the function.
    """
    found: dict[str, None] = {}
    for value in values:
        _guards(value, ranges, names, found)
    return tuple(found)


def _guards(
    value: Expr,
    ranges: Mapping[str, tuple[int, int]],
    names: Mapping[str, str],
    found: dict[str, None],
) -> None:
    if value.is_const and abs(value.value) < _SAFE:
        return
    for monomial, c in value.terms:
        for atom, _ in monomial:
            if isinstance(atom, Func):
                for arg in atom.args:
                    _guards(arg, ranges, names, found)
        if _fits(Expr(((monomial, c),)), ranges):
            continue
        factors = [int_literal(abs(c))] if abs(c) != 1 else []
        for atom, power in monomial:
            factors += [to_cpp(Expr(((((atom, 1),), 1),)), names)] * power
        found.setdefault(", ".join(factors))


def _fits(product: Expr, ranges: Mapping[str, tuple[int, int]]) -> bool:
    try:
        low, high = bounds(product, ranges)
    except ExprError:
        return False
    return low > -_SAFE and high < _SAFE


def symbol_expr_names(graph: FusionGraph, prefix: str) -> dict[str, str]:
    """Return the C++ spelling of the graph's symbols as members of ``prefix``."""
    return {s.name: f"{prefix}.{s.name}" for s in graph.symbols}
