"""Sources of the values of a region's symbols: sizes of its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch

from autofuse.clients.torch.lower import Lowered
from autofuse.clients.torch.refusal import RefusedError
from autofuse.clients.torch.sizes import Sizes
from autofuse.implgraph.expr.expression import Expr, Sym, sym

__all__ = ["Place", "as_line", "places_of"]


class Place:
    """Source of a symbol's value at a call.

    Attributes:
        argument: position among the arguments of the region.
        dim: dimension of that tensor; None if the argument is the number itself.
        factor: factor of the symbol in that size.
        plus: constant added to it.
        others: further symbols added to it, each with its factor.
    """

    __slots__ = ("argument", "dim", "factor", "others", "plus")

    def __init__(
        self,
        argument: int,
        dim: int | None,
        factor: int = 1,
        plus: int = 0,
        others: tuple[tuple[int, Place], ...] = (),
    ) -> None:
        self.argument, self.dim, self.factor, self.plus = argument, dim, factor, plus
        self.others = others

    def read(self, args: Sequence[Any]) -> Any:
        """Return the value: an int, or a SymInt for fake tensors."""
        found = args[self.argument]
        size = found if self.dim is None else found.shape[self.dim]
        for factor, other in self.others:
            size -= factor * other.read(args)
        return (size - self.plus) // self.factor


def places_of(
    lowered: Lowered, arguments: list[torch.fx.Node], numbers: Mapping[str, torch.fx.Node]
) -> list[Place]:
    """Return where to find every symbol of a region.

    Args:
        lowered: the region.
        arguments: its arguments so far; nodes are added for symbols that no shape contains.
        numbers: nodes of the whole graph that are plain symbols, by the name of the symbol.

    Raises:
        RefusedError: a symbol cannot be found.
    """
    sizes = Sizes()
    sizes.symbols = dict(zip(lowered.symbols, (s for s in lowered.graph.symbols), strict=True))
    sizes.negative = set(lowered.negative)
    sizes.rests = dict(lowered.rests)
    found: dict[str, Place] = {}
    dims: list[tuple[Expr, int, int]] = []
    for at, node in enumerate(arguments):
        val = node.meta["val"]
        if isinstance(val, torch.Tensor):
            for d, size in enumerate(val.shape):
                e = _read(sizes, size)
                if e is not None:
                    dims.append((e, at, d))
                    _note(found, e, at, d)
    rests = {key: (whole, rest) for whole, (key, rest) in lowered.rests.items()}
    known = list(zip(lowered.symbols, (s.name for s in lowered.graph.symbols), strict=True))
    # Plain symbols first: differences depend on them.
    for name, ours in sorted(known, key=lambda pair: pair[0] in rests):
        if ours in found:
            continue
        sign = -1 if name in lowered.negative else 1
        if name not in rests:
            if name not in numbers:
                raise RefusedError(f"the size {name} does not follow from the input shapes")
            found[ours] = Place(_argument(arguments, numbers[name]), None, sign)
            continue
        found[ours] = _difference(ours, *rests[name], found, dims, arguments, numbers)
    return [found[ours] for _, ours in known]


def _difference(
    ours: str,
    whole: str,
    rest: Expr,
    found: Mapping[str, Place],
    dims: Sequence[tuple[Expr, int, int]],
    arguments: list[torch.fx.Node],
    numbers: Mapping[str, torch.fx.Node],
) -> Place:
    """Return the place of a symbol that equals a size, ``whole`` in PyTorch, minus ``rest``.

    A part of that size also works: it contains less of ``rest``.
    """
    known = set(found)
    for e, at, d in dims:
        left = e - sym(ours)
        if ours in e.symbols() and left.symbols() <= known:
            with suppress(RefusedError):
                return _less(at, d, left, found)
    if whole in numbers and rest.symbols() <= known:
        return _less(_argument(arguments, numbers[whole]), None, rest, found)
    raise RefusedError(f"the size {whole} less {rest} does not follow from the input shapes")


def _argument(arguments: list[torch.fx.Node], node: torch.fx.Node) -> int:
    """Return the position of a node among the arguments, adding it if missing."""
    if node not in arguments:
        arguments.append(node)
    return arguments.index(node)


def _less(at: int, dim: int | None, rest: Expr, found: Mapping[str, Place]) -> Place:
    """Return the place of a size minus ``rest``, a sum of symbols whose places are known."""
    others, plus = [], 0
    for monomial, factor in rest.terms:
        if not monomial:
            plus = factor
            continue
        if len(monomial) != 1 or not isinstance(monomial[0][0], Sym) or monomial[0][1] != 1:
            raise RefusedError(f"the size {rest} does not follow from the input shapes")
        others.append((factor, found[monomial[0][0].name]))
    return Place(at, dim, 1, plus, tuple(others))


def _read(sizes: Sizes, size: Any) -> Expr | None:
    """Return a dimension as an expression if the region knows its symbols, else None."""
    if isinstance(size, int):
        return None
    if not {s.name for s in size.node.expr.free_symbols} <= {*sizes.symbols, *sizes.rests}:
        return None
    try:
        return sizes.expr(size)
    except RefusedError:
        return None


def _note(found: dict[str, Place], e: Expr, at: int, dim: int) -> None:
    """Record a dimension that determines a symbol."""
    line = as_line(e)
    if line is None:
        return
    name, factor, plus = line
    have = found.get(name)
    if have is None or (factor, plus) == (1, 0) != (have.factor, have.plus):
        found[name] = Place(at, dim, factor, plus)


def as_line(e: Expr) -> tuple[str, int, int] | None:
    """Return (symbol, factor, plus) if an expression is factor * symbol + plus with a positive factor."""
    plus = sum(factor for monomial, factor in e.terms if not monomial)
    slopes = [(monomial, factor) for monomial, factor in e.terms if monomial]
    if len(slopes) != 1 or len(slopes[0][0]) != 1 or slopes[0][1] <= 0:
        return None
    ((atom, power),), factor = slopes[0]
    return (atom.name, factor, plus) if isinstance(atom, Sym) and power == 1 else None
