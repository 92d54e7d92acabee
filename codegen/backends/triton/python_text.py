"""Print sizes and names as Python."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable, Mapping

from autofuse.codegen.nests import names as naming
from autofuse.implgraph.expr.expression import Atom, Expr, ExprError, IntLike, Sym

__all__ = ["Names", "to_python"]

#: Reserved names in generated text, besides builtins and keywords.
_RESERVED = frozenset(
    (
        *("tl", "triton", "torch", "Launcher", "meet_cluster", "IN_CLUSTERS", "row_blocks"),
        *("meeting", "meeting_ptr", "device", "warps", "item", "row", "col", "part", "item_live"),
        *("blocks", "rows_of_core", "unit_of"),
        *("row_live", "col_live", "block", "outer", "line", "start", "first", "other"),
        *("BLOCK", "ROWS", "COLS", "PARTS", "WIDE", "UNIT"),
    )
)
#: Precedence of a text beside an operator: a sum binds less tightly than a product.
_SUM, _PRODUCT, _ATOM = range(3)


class Names(naming.Names):
    """Python identifiers that are not reserved in Triton files."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        words = (*keyword.kwlist, *keyword.softkwlist, *dir(builtins))
        super().__init__((*taken, *_RESERVED, *words))


def to_python(
    expr: IntLike, names: Mapping[str, str] | None = None, *, atomic: bool = False
) -> str:
    """Return a nonnegative size as integer arithmetic that is valid in Python and Triton.

    Args:
        expr: expression to print.
        names: names of symbols.
        atomic: parenthesise unless it can stand beside any operator.

    Raises:
        ExprError: for a ``Ratio`` that is no integer.
    """
    text, level = _sum(Expr.of(expr), names or {})
    return text if level == _ATOM or not atomic else f"({text})"


def _sum(e: Expr, names: Mapping[str, str]) -> tuple[str, int]:
    if e.number is not None:
        return str(e.number), _ATOM if e.number >= 0 else _SUM
    terms = sorted(e.terms, key=lambda t: t[1] < 0)
    parts: list[str] = []
    level = _SUM
    for monomial, c in terms:
        factors = [_atom(a, names) for a, power in monomial for _ in range(power)]
        size = abs(c)
        if size != 1 or not factors:
            factors.insert(0, str(size))
        text = " * ".join(factors)
        if len(terms) == 1 and c > 0:
            level = _ATOM if len(factors) == 1 else _PRODUCT
        sign = "-" if c < 0 else "+"
        parts.append(f" {sign} {text}" if parts else (f"-{text}" if c < 0 else text))
    return "".join(parts), level


def _atom(a: Atom, names: Mapping[str, str]) -> str:
    if isinstance(a, Sym):
        return names.get(a.name, a.name)
    args = [to_python(x, names, atomic=True) for x in a.args]
    if a.name == "FloorDiv":
        return f"({args[0]} // {args[1]})"
    if a.name == "CeilDiv":
        return f"(({to_python(a.args[0], names)} + {args[1]} - 1) // {args[1]})"
    if a.name == "Mod":
        return f"({args[0]} % {args[1]})"
    if a.name in ("Min", "Max"):
        return f"{a.name.lower()}({', '.join(args)})"
    raise ExprError(f"{a} has no place in generated code")
