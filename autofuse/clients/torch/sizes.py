"""Sizes of PyTorch's graphs as expressions; names of symbols depend only on the region."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from autofuse.clients.torch.refusal import RefusedError
from autofuse.frontends.builder import MAX_ELEMENTS, Shape
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import (
    ZERO,
    CeilDiv,
    Expr,
    ExprError,
    FloorDiv,
    Func,
    Max,
    Min,
    Mod,
    Sym,
    const,
    product,
    sym,
    total,
)
from autofuse.implgraph.ir.fusion import Symbol

__all__ = ["Shape", "Sizes", "hint_of", "number_of_elements", "value_of"]

#: log2 of the maximum value of a symbol; less if a tensor with several symbols could grow too large.
_SIZE_BITS = 31
#: Function of sizes -> how PyTorch computes it.
_COMPUTED: Mapping[str, Callable[..., Any]] = {
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Max": torch.sym_max,
    "Min": torch.sym_min,
}
_FUNCTIONS = {"FloorDiv": FloorDiv, "CleanDiv": FloorDiv, "Mod": Mod, "PythonMod": Mod}


class Sizes:
    """The symbols of one region, in order of first use.

    Attributes:
        symbols: name in PyTorch's graph -> the symbol of the kernel, with the range that PyTorch guards.
        negative: names that PyTorch guards to be at most 0; the symbol of the kernel is the absolute value.
        rests: name in PyTorch's graph -> the name of a difference, and the term to add to get that symbol.
    """

    def __init__(self) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.negative: set[str] = set()
        self.rests: dict[str, tuple[str, Expr]] = {}

    def name_differences(self, sizes: Iterable[Any]) -> None:
        """Introduce a symbol for every size that is a symbol minus others.

        A kernel knows ranges of symbols, but not that ``n - k`` is a size and thus non-negative.  With a symbol ``m``
        for the difference, ``n`` is ``m + k``: every size is a sum, and a slice of one is within its bounds.

        Raises:
            RefusedError: for a size that cannot be shown non-negative, such as a second difference of one symbol that
                is not part of the first one.
        """
        for size in sizes:
            if isinstance(size, int):
                continue
            e, env = size.node.expr, size.node.shape_env
            if type(e).__name__ != "Add" or not any(_may_take_away(a, env) for a in e.args):
                continue
            try:
                self._name_difference(e, env)
            except ExprError as wrong:
                raise RefusedError(f"the size {e} cannot be expressed: {wrong}") from None
            ranges = {s.name: (s.min, s.max) for s in self.symbols.values()}
            if bounds(self.expr(size), ranges)[0] < 0:
                raise RefusedError(f"the size {e} can be negative within the ranges of its symbols")

    def _name_difference(self, e: Any, env: Any) -> None:
        parts = [(a, self._read(a, env)) for a in e.args]
        whole = [a for a, _ in parts if a.is_Symbol and a.name not in self.negative]
        if len(whole) != 1:
            return
        (n,) = whole
        # Difference of a difference: subtract from it the part of the terms that exceeds the rest.
        key, before = self.rests.get(n.name, (n.name, ZERO))
        rest = 0 - total(x for a, x in parts if a not in whole) - before
        ranges = {s.name: (s.min, s.max) for s in self.symbols.values()}
        if (rest.is_const and (key == n.name or rest == 0)) or bounds(rest, ranges)[0] < 0:
            return
        taken = {n for _, r in self.rests.values() for n in r.symbols()}
        if self.symbols[key].name in taken | rest.symbols():
            return
        lacking = self.symbols.pop(key)
        # Reuse the symbol of the whole for the difference: nothing refers to it yet.
        self.symbols[str(e)] = Symbol(lacking.name, 0, lacking.max)
        self.rests[n.name] = (str(e), before + rest)

    def expr(self, size: Any) -> Expr:
        """Return an int or a SymInt as an expression.

        Raises:
            RefusedError: the size depends on data, or contains a function that kernels do not support.
        """
        if isinstance(size, int):
            return const(size)
        node = size.node
        try:
            return self._read(node.expr, node.shape_env)
        except ExprError as e:
            raise RefusedError(f"the size {node.expr} cannot be expressed: {e}") from None

    def shape(self, sizes: Iterable[Any]) -> Shape:
        """Return a shape, or strides, as expressions."""
        return tuple(self.expr(s) for s in sizes)

    def holds(self, comparison: Any) -> bool:
        """Return True if a comparison of sizes holds; a guard keeps the answer the same at every call.

        Args:
            comparison: a bool, or PyTorch's comparison of SymInts.

        Raises:
            RefusedError: it depends on data, or needs a guard but PyTorch accepts no more guards.
        """
        if isinstance(comparison, bool):
            return comparison
        if statically_known_true(comparison):
            return True
        if statically_known_true(torch.sym_not(comparison)):
            return False
        node = comparison.node
        if not node.has_hint():
            raise RefusedError(f"{node.expr} depends on data")
        if node.shape_env.frozen:
            raise RefusedError(f"{node.expr} is known only at run time")
        return bool(comparison)

    # Distinguish the classes of PyTorch's algebra system by name.
    def _read(self, e: Any, env: Any) -> Expr:
        kind = type(e).__name__
        if e.is_Integer:
            return const(int(e))
        if e.is_Symbol and e.name in self.rests:
            difference, rest = self.rests[e.name]
            return sym(self.symbols[difference].name) + rest
        if e.is_Symbol:
            found = sym(self._symbol(e, env))
            return 0 - found if e.name in self.negative else found
        args = e.args
        if kind == "Add":
            return total(self._read(a, env) for a in args)
        if kind == "Mul":
            return product([self._read(a, env) for a in args])
        if kind == "Pow" and args[1].is_Integer and int(args[1]) > 0:
            return product([self._read(args[0], env)] * int(args[1]))
        if kind in _FUNCTIONS:
            return _FUNCTIONS[kind](self._read(args[0], env), self._read(args[1], env))
        if kind in ("Max", "Min"):
            return (Max if kind == "Max" else Min)(*(self._read(a, env) for a in args))
        if kind == "CeilToInt" and type(args[0]).__name__ == "IntTrueDiv":
            over = args[0].args
            return CeilDiv(self._read(over[0], env), self._read(over[1], env))
        raise RefusedError(f"the size {e} uses a function that kernels do not support: {kind}")

    def _symbol(self, s: Any, env: Any) -> str:
        found = self.symbols.get(s.name)
        if found is None:
            if s.name.startswith("u"):
                raise RefusedError(f"the size {s.name} depends on data")
            name = f"s{len(self.symbols)}"
            low, high = _range(env, s)
            if low < 0:
                self.negative.add(s.name)
                low, high = -high, -low
            found = Symbol(name, low, high)
            self.symbols[s.name] = found
        return found.name

    def limit(self, shapes: Iterable[Shape]) -> tuple[Symbol, ...]:
        """Return the symbols with ranges small enough that no tensor of these shapes has too many elements."""
        bits = min((_bits_left(s) for s in shapes), default=_SIZE_BITS)
        most = 1 << max(min(bits, _SIZE_BITS), 0)
        return tuple(
            Symbol(s.name, s.min, max(min(s.max, most), s.min)) for s in self.symbols.values()
        )


def _may_take_away(term: Any, env: Any) -> bool:
    """Return True if a term of a sum may be negative."""
    negative = any(_range(env, s)[0] < 0 for s in term.free_symbols)
    return bool(term.free_symbols and (negative or term.could_extract_minus_sign()))


def _range(env: Any, symbol: Any) -> tuple[int, int]:
    """Return the range of a symbol, which is either non-negative or non-positive."""
    known, most = env.var_to_range.get(symbol), 1 << _SIZE_BITS
    if known is None:
        return 0, most
    low, high = _as_int(known.lower, -most), _as_int(known.upper, most)
    if low < 0 and high <= 0:
        return max(low, -most), max(high, -most)
    low = max(low, 0)
    return low, max(min(high, most), low)


def _as_int(value: Any, otherwise: int) -> int:
    return int(value) if getattr(value, "is_Integer", False) else otherwise


def _bits_left(shape: Shape) -> int:
    """Return the bits available to each symbol of a shape."""
    degree, fixed = 0, 0
    for e in shape:
        if e.is_const:
            fixed += max(e.value, 1).bit_length()
            continue
        degree += max(sum(power for atom, power in monomial) for monomial, _ in e.terms if monomial)
        fixed += sum(abs(factor) for _, factor in e.terms).bit_length()
    if not degree:
        return _SIZE_BITS
    return (MAX_ELEMENTS.bit_length() - 2 - fixed) // degree


def hint_of(size: Any) -> int | None:
    """Return the value of a size when the graph was traced; None if it depends on data."""
    if isinstance(size, int):
        return size
    hint = size.node.hint
    return None if hint is None else int(hint)


def number_of_elements(sizes: Sequence[Any]) -> int:
    """Return the elements of a tensor when the graph was traced; sizes that depend on data count as 1."""
    out = 1
    for s in sizes:
        hint = hint_of(s)
        out *= 1 if hint is None else hint
    return out


def value_of(e: Expr, env: Mapping[str, Any], call: Callable[..., Any]) -> Any:
    """Return an expression of sizes, computed by PyTorch's functions.

    Args:
        e: the expression.
        env: value of every symbol: a number, a SymInt, or whatever ``call`` accepts.
        call: applies a function to its arguments.
    """
    total: Any = 0
    for monomial, factor in e.terms:
        part: Any = factor
        for atom, power in monomial:
            for _ in range(power):
                one = _atom_value(atom, env, call)
                part = one if part == 1 else call(operator.mul, part, one)
        total = part if total == 0 else call(operator.add, total, part)
    return total


def _atom_value(atom: Sym | Func, env: Mapping[str, Any], call: Callable[..., Any]) -> Any:
    if isinstance(atom, Sym):
        return env[atom.name]
    args = [value_of(a, env, call) for a in atom.args]
    if atom.name == "CeilDiv":
        above = call(operator.add, args[0], call(operator.sub, args[1], 1))
        return call(operator.floordiv, above, args[1])
    found = args[0]
    for other in args[1:]:
        found = call(_COMPUTED[atom.name], found, other)
    return found
