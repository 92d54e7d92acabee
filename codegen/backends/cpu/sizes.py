"""Sizes of symbols, which the entry of a kernel reads from the shapes of its tensors."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.codegen.backends.cpu.cpp_text import size_text
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, Sym
from autofuse.implgraph.ir.fusion import FusionGraph

__all__ = ["SIZES", "symbol_lines", "unsolved"]

#: Integer functions with the semantics of Python's // and %; dividing by 0 gives 0.
SIZES = """\
namespace autofuse {

inline int64_t Min(int64_t a, int64_t b) {
    return b < a ? b : a;
}

inline int64_t Max(int64_t a, int64_t b) {
    return a < b ? b : a;
}

inline int64_t FloorDiv(int64_t a, int64_t b) {
    return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}

inline int64_t CeilDiv(int64_t a, int64_t b) {
    return b == 0 ? 0 : a / b + (a % b != 0 && (a < 0) == (b < 0));
}

inline int64_t Mod(int64_t a, int64_t b) {
    return a - FloorDiv(a, b) * b;
}

} // namespace autofuse
"""


def unsolved(graph: FusionGraph) -> tuple[str, ...]:
    """Return the symbols that no tensor shape determines; the caller passes their sizes."""
    solved = {name for name, _, _ in _solutions(graph)}
    return tuple(s.name for s in graph.symbols if s.name not in solved)


def symbol_lines(graph: FusionGraph, names: Mapping[str, str]) -> list[str]:
    """Return statements that compute every symbol of a graph; ``names``: their C++ names."""
    given = len(_shapes(graph))
    lines = [
        f"    const int64_t {names[name]} = shapes[{given}][{k}];"
        for k, name in enumerate(unsolved(graph))
    ]
    for name, place, (slope, rest) in _solutions(graph):
        text = place if rest == ZERO else f"{place} - {size_text(rest, names, atomic=True)}"
        if slope != ONE:
            text = f"autofuse::FloorDiv({text}, {size_text(slope, names)})"
        lines.append(f"    const int64_t {names[name]} = {text};")
    return lines


def _shapes(graph: FusionGraph) -> list[tuple[Expr, ...]]:
    """Return the shapes of the entry's tensors: inputs, then outputs that overwrite no input."""
    found = [graph.tensors[name].shape for name in graph.inputs]
    return found + [graph.tensors[o.tensor].shape for o in graph.outputs if o.inout is None]


def _solutions(graph: FusionGraph) -> list[tuple[str, str, tuple[Expr, Expr]]]:
    """Return symbols with a dimension each and the ``(slope, rest)`` such that it is slope * symbol + rest."""
    places = [
        (f"shapes[{k}][{d + 1}]", e)
        for k, shape in enumerate(_shapes(graph))
        for d, e in enumerate(shape)
    ]
    found: dict[str, tuple[str, str, tuple[Expr, Expr]]] = {}
    progress = True
    while progress:
        progress = False
        for place, e in places:
            unknown = [s for s in e.symbols() if s not in found]
            line = _line(e, unknown[0]) if len(unknown) == 1 else None
            if line is not None:
                found[unknown[0]] = (unknown[0], place, line)
                progress = True
    return list(found.values())


def _line(e: Expr, symbol: str) -> tuple[Expr, Expr] | None:
    """Return ``(slope, rest)`` if a size is slope * symbol + rest with a constant slope > 0, else None."""
    slope, rest = ZERO, ZERO
    for monomial, c in e.terms:
        term = Expr(((monomial, c),))
        if symbol not in term.symbols():
            rest = rest + term
        elif monomial == ((Sym(symbol), 1),):
            slope = slope + c
        else:
            return None
    return (slope, rest) if slope.is_const and slope.value > 0 else None
