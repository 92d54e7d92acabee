"""Checks of a kernel's integer arithmetic: no division by 0, no product beyond 64 bits."""

from __future__ import annotations

from collections.abc import Iterator

from autofuse.codegen.ir.calls import Call, Count, SizeValue
from autofuse.codegen.ir.kernel_ir import CopyIn, CopyOut, EnQue, ScalarRead
from autofuse.codegen.proofs.facts import K, R
from autofuse.codegen.proofs.item import Item
from autofuse.codegen.proofs.model import Finding, Kernel
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import (
    ONE,
    ZERO,
    CeilDiv,
    Expr,
    ExprError,
    Func,
    divide_exact,
    product,
    sym,
)

__all__ = ["divisors_are_positive", "integers_do_not_overflow"]

#: Supported number of elements of the iteration space, and of a tensor.
MAX_ELEMENTS = 1 << 48


def _expressions(kernel: Kernel) -> Iterator[tuple[Expr, str]]:
    for item in kernel.items:
        yield from _expressions_of(kernel, item)


def _expressions_of(kernel: Kernel, item: Item) -> Iterator[tuple[Expr, str]]:
    s = item.stmt
    node = kernel.node_of(s.local) if isinstance(s, CopyIn | CopyOut | ScalarRead | EnQue) else ""
    for e in item.values:
        if not e.is_const:
            yield e, node
    if item.block is not None:
        for e in item.block.exprs():
            if not e.is_const:
                yield e, node
    if isinstance(s, Call):
        for a in s.args:
            if isinstance(a, Count | SizeValue) and not a.value.is_const:
                yield kernel.value(a.value), kernel.node_of(s.writes[0])


def divisors_are_positive(kernel: Kernel) -> Iterator[Finding]:
    """Every divisor is at least 1 where the division happens.

    In a loop that runs, the number of iterations is at least 1, and so is every nonnegative factor of it.
    """
    seen: set[tuple[Expr, tuple[Expr, ...]]] = set()
    for e, node, loops in _divisions(kernel):
        for d in _divisors(e):
            if (d, loops) in seen:
                continue
            seen.add((d, loops))
            if not any(_is_factor(kernel, d, n) for n in loops):
                yield from kernel.at_least(d, ONE, "divisor", node)


def _divisions(kernel: Kernel) -> Iterator[tuple[Expr, str, tuple[Expr, ...]]]:
    """Yield expressions, with their nodes and the iterations of the loops around them."""
    for item in kernel.items:
        around = kernel.iterations(item)
        for e, node in _expressions_of(kernel, item):
            yield e, node, around
        for inside, (_, extent) in enumerate(reversed(item.rows), 1):
            yield extent, "", around[:-inside]
    # Names replaced the digits of a number above: they are computed where that number is known.
    for e in kernel.meaning:
        numbers = e.symbols()
        loops = (kernel.tiles,) if K in numbers else ()
        steps = not numbers.isdisjoint((kernel.place, R))
        yield e, "", (*loops, kernel.spec.reduce_steps) if steps else loops


def _is_factor(kernel: Kernel, d: Expr, whole: Expr) -> bool:
    return divide_exact(whole, d) is not None and kernel.prover.nonneg(d)


def _divisors(e: Expr) -> Iterator[Expr]:
    for a in e.atoms():
        if isinstance(a, Func):
            if a.name not in ("Min", "Max") and not a.args[1].is_const:
                yield a.args[1]
            for x in a.args:
                yield from _divisors(x)


def integers_do_not_overflow(kernel: Kernel) -> Iterator[Finding]:
    """With an iteration space of at most 2**48 elements, all products fit 64 bits.

    Indices are at most the sizes they count: ``j*t < E``, ``c*b <= T + cores``, and so on; a product of the remaining
    sizes is a factor of the product of all sizes, or is bounded by the ranges of the symbols.
    """
    spec = kernel.spec
    space = [
        spec.opened.extent,
        spec.outer,
        spec.reduce_outer,
        *(kernel.axes[a.id].size for a in kernel.impl.axes if a.id in _inner(kernel)),
    ]
    whole = product(space)
    seen: set[Expr] = set()
    for e, node in _expressions(kernel):
        if e in seen:
            continue
        seen.add(e)
        big = _magnitude(kernel, e, whole)
        if big >= 1 << 63:
            yield Finding(f"|{e}| < 2**63: the bound is 2**{big.bit_length() - 1}", node, False)


def _inner(kernel: Kernel) -> set[int]:
    return {a for n in kernel.impl.nodes for a in n.y.vectorized_axis if a != kernel.tile_in.id}


def _magnitude(kernel: Kernel, e: Expr, whole: Expr) -> int:
    """Return a bound on the absolute value of every partial sum."""
    try:
        low, high = bounds(_largest(kernel, e), kernel.prover.ranges)
        if low > -(1 << 62) and high < 1 << 62:
            return max(-low, high)
    except ExprError:
        pass
    known = dict(whole.terms[0][0]) if len(whole.terms) == 1 else {}
    total = 0
    for monomial, c in _largest(kernel, e).terms:
        left, size = dict(known), abs(c)
        used = False
        for a, p in monomial:
            for _ in range(p):
                if left.get(a, 0) > 0:
                    left[a] -= 1
                    used = True
                    continue
                try:
                    size *= max(1, bounds(Expr(((((a, 1),), 1),)), kernel.prover.ranges)[1])
                except ExprError:
                    size *= 1 << 62
        total += size * (MAX_ELEMENTS if used else 1)
    return total


def _largest(kernel: Kernel, e: Expr) -> Expr:
    """Return a sum of products of sizes that bounds ``|e|`` term by term."""
    out = ZERO
    t, tile = kernel.spec.opened.symbol, str(kernel.tile_index)
    # A rounded tile is shorter than the axis plus one granule.
    extent = kernel.spec.opened.extent * (
        kernel.spec.opened.granule if kernel.spec.opened.rounded else 1
    )
    tiles = kernel.spec.outer * (ONE if kernel.spec.reduce_tiles else extent)
    steps = kernel.spec.reduce_outer * (extent if kernel.spec.reduce_tiles else ONE)
    for monomial, c in e.terms:
        term, powers, scale = ONE, {}, abs(c)
        for a, p in monomial:
            if isinstance(a, Func):
                arg = [_largest(kernel, x) for x in a.args]
                divisor = a.args[1] if a.name in ("CeilDiv", "FloorDiv") else ONE
                whole = divisor.as_int() or 1
                low = arg[0] if a.name in ("CeilDiv", "FloorDiv", "Mod") else None
                value = low if low is not None else sum(arg[1:], arg[0])
                value = (
                    min(arg, key=lambda x: sum(abs(c) for _, c in x.terms))
                    if a.name == "Min"
                    else value
                )
                # CeilDiv(x, n) <= x, as x is at least 1 in the loop; constants keep their quotient.
                value = CeilDiv(value, whole) if value.is_const else value
                if p == 1 and whole > 1 and scale % whole == 0:
                    # n*CeilDiv(x, n) <= x + n - 1
                    scale //= whole
                    value = value * whole if value.is_const else value + whole - 1
                for _ in range(p):
                    term = term * value
            else:
                powers[a.name] = p
        while powers.get(tile, 0) and powers.get(t, 0):
            powers[tile] -= 1
            powers[t] -= 1
            term = term * extent
        while powers.get("%c", 0) and powers.get(kernel.spec.block_size, 0):
            powers["%c"] -= 1
            powers[kernel.spec.block_size] -= 1
            term = term * (tiles + kernel.arch.cores_max)
        upper = {"%k": tiles, kernel.spec.block_size: tiles, "%i": tiles, "%q": steps, R: steps}
        upper[kernel.place] = steps
        upper |= {t: extent, "%a": extent, tile: extent}
        upper |= {str(kernel.extent(a)): kernel.axes[a].size for a in kernel.cut}
        upper |= {f"%{a.name}": a.size for a in kernel.outer}
        for name, p in powers.items():
            for _ in range(p):
                fact = kernel.prover.facts.get(name)
                # A row of a copy: its index is below the extent of the loop over rows.
                row = _largest(kernel, fact.upper[0][1] + 1) if fact and fact.rank >= 60 else None
                term = term * upper.get(name, row if row is not None else sym(name))
        out = out + term * scale
    return out
