"""Facts about the variables of a kernel, from the host's checks, the loops and the tile."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol

from autofuse.codegen.proofs.prover import Bound, Fact
from autofuse.implgraph.expr.expression import ONE, Expr, Func, divide_exact, sym
from autofuse.implgraph.ir.graph import Axis, ImplGraph, TilingSpec
from autofuse.implgraph.ops.requirements import Requirement
from autofuse.targets import Architecture

__all__ = ["A", "J", "K", "Q", "R", "assumed", "factors", "facts"]

#: Names of the tile number, its index along the tiled axis, its length, the step of a reduce loop, and the number of
#: completed steps of a staggered one.
K, J, A, Q, R = "%k", "%j", "%a", "%q", "%r"


class Terms(Protocol):
    """Terms of facts: a template's axes, and the expressions of its loops.  ``model.Kernel`` has them."""

    impl: ImplGraph
    spec: TilingSpec
    arch: Architecture
    axes: dict[int, Axis]
    index: dict[int, Expr]
    cut: dict[int, Axis]
    outer: list[Axis]
    looped: list[Axis]
    blocked: list[Axis]
    tile_out: Axis
    reduce_loop: Axis | None
    place: str
    t: Expr
    b: Expr
    core: Expr
    tiles: Expr
    per_axis: Expr
    tile_index: Expr
    row_guard: bool
    loop_guard: bool
    needed: tuple[Requirement, ...]

    @property
    def steps_here(self) -> Expr:
        """Return the number of steps of the reduce loop."""

    @property
    def tiled(self) -> Expr:
        """Return the elements of the tiled axis."""

    def extent(self, axis: int) -> Expr:
        """Return the iterations of an axis in this tile."""

    def rest(self, inside: int, tiles: Axis) -> Expr:
        """Return the length of an axis from the first element of a tile on."""


def facts(kernel: Terms) -> dict[str, Fact]:
    """Return facts that hold in the loop, after the early returns."""
    spec = kernel.spec
    out: dict[str, Fact] = {}
    one = _at_least_one(kernel)
    for s in kernel.impl.symbols:
        out[s.name] = Fact(max(s.min, 1) if s.name in one else s.min, max(s.max, 1))
    uppers: list[Bound] = []
    uppers.append((ONE, spec.opened.longest))
    if spec.opened.most is not None:
        uppers.insert(0, (ONE, spec.opened.most))
    multiple = 1
    length = spec.opened.longest.as_int()
    if spec.opened.rounded:
        multiple = spec.opened.granule
    elif length is not None:
        # A tile is a multiple of the granule, or the whole axis; so is a tail.
        whole = length <= spec.opened.granule
        multiple = max(length, 1) if whole else math.gcd(length, spec.opened.granule)
    out[spec.opened.symbol] = Fact(
        1,
        max(length, 1) if length is not None else 1 << 62,
        upper=tuple(uppers),
        rank=10,
        multiple=multiple,
    )
    out[spec.block_size] = Fact(1, rank=15)
    out["%c"] = Fact(0, kernel.arch.cores_max - 1, rank=20)
    out["%i"] = Fact(
        0,
        upper=((ONE, kernel.b - 1), (ONE, kernel.tiles - kernel.core * kernel.b - 1)),
        rank=22,
    )
    out[K] = Fact(0, upper=((ONE, kernel.tiles - 1),), rank=25)
    for n, a in enumerate(kernel.outer):
        out[f"%{a.name}"] = Fact(
            0,
            _top(a.size.as_int()),
            upper=((ONE, a.size - 1),),
            rank=30 + n,
        )
    _facts_of_cut_axes(kernel, out)
    if kernel.reduce_loop is not None:
        out[Q] = Fact(0, upper=((ONE, spec.reduce_steps - 1),), rank=26)
        if len(kernel.looped) == 1 and kernel.looped[0].id != kernel.tile_out.id:
            size = kernel.looped[0].size
            out[Q] = Fact(0, _top(size.as_int()), upper=((ONE, size - 1),), rank=26)
        if kernel.steps_here != spec.reduce_steps:
            # As many as the tile of the looped axis has, which depends on its index.
            out[Q] = replace(out[Q], upper=((ONE, kernel.steps_here - 1),), rank=55)
        out[kernel.place] = out[R] = out[Q]
    for number, parts in ((K, kernel.blocked), (kernel.place, kernel.looped)):
        short = parts is kernel.looped and kernel.steps_here != spec.reduce_steps
        if len(parts) == 1 and parts[0].id != kernel.tile_out.id and not short:
            out[number] = replace(out[number], rank=30)
    # E - j*t >= 1: no tile is empty.
    tile = ((kernel.t, kernel.tiled - 1), (ONE, kernel.per_axis - 1))
    if str(kernel.tile_index) in (J, K, kernel.place):
        out[str(kernel.tile_index)] = Fact(0, upper=tile, rank=40)
    own = spec.opened.extent.as_int()
    tail = multiple if not spec.opened.rounded else math.gcd(own, multiple) if own else 1
    out[A] = Fact(
        1,
        min(out[spec.opened.symbol].high, own if own else 1 << 62),
        upper=((ONE, kernel.t), (ONE, kernel.tiled - kernel.tile_index * kernel.t)),
        rank=50,
        multiple=tail,
    )
    return out


def _at_least_one(kernel: Terms) -> set[str]:
    """Return the symbols that are at least 1 whenever anything runs."""
    spec = kernel.spec
    one = {s.name for s in kernel.impl.symbols if s.min >= 1}
    # If the tiled axis is reduced, it may be empty; then nothing that uses its indices runs.
    for e in (spec.opened.extent, spec.outer) if kernel.loop_guard else ():
        one |= factors(e)
    one |= factors(spec.row_elements) if kernel.row_guard else set()
    for c in spec.conditions:
        one |= factors(c.value) if c.at_least is not None and c.at_least > 0 else set()
    return one


def _facts_of_cut_axes(kernel: Terms, out: dict[str, Fact]) -> None:
    """Add facts about constant-length tiles: none is empty, and the last one ends with its axis."""
    for inside, tiles in kernel.cut.items():
        length, whole = kernel.axes[inside].size, kernel.axes[tiles.origin[0]].size
        number = str(kernel.index[tiles.id])
        if number in out:
            start = (length, whole - 1)
            out[number] = replace(out[number], upper=(start, *out[number].upper))
        out[str(kernel.extent(inside))] = Fact(
            1,
            min(length.value, whole.as_int() or length.value),
            upper=((ONE, length), (ONE, kernel.rest(inside, tiles))),
            rank=51,
            multiple=math.gcd(length.value, whole.as_int() or 1),
        )


def assumed(kernel: Terms) -> list[Expr]:
    """Return the conditions that the host has checked, as nonnegative expressions.

    ``t <= FloorDiv(most, rows)`` means ``t*rows <= most``, and with ``t >= 1`` ``rows <= most``.  An upper bound of a
    product also bounds it without any factors that are at least 1.
    """
    ones, out = _at_least_one(kernel), [r.value - r.least for r in kernel.needed]
    for c in kernel.spec.conditions:
        out += [c.value - c.at_least] if c.at_least is not None else []
        if c.at_most is not None:
            out += [c.at_most - part for part in _parts(c.value, ones)]
    limits = [kernel.spec.opened.most] if kernel.spec.opened.most is not None else []
    for limit in limits:
        for a in limit.atoms():
            if not isinstance(a, Func) or str(a) != str(limit):
                continue
            if a.name == "Min":
                limits += a.args
            elif a.name == "FloorDiv":
                out += [a.args[0] - a.args[1], a.args[0] - a.args[1] * kernel.t]
    return out


def _parts(e: Expr, ones: set[str]) -> list[Expr]:
    """Return ``e`` and, for a product, its quotients by symbols that are at least 1."""
    out = [e]
    if len(e.terms) == 1 and e.terms[0][1] > 0:
        for name in sorted(ones & e.symbols()):
            out += [part for x in out if (part := divide_exact(x, sym(name))) is not None]
    return out


def _top(size: int | None) -> int:
    return 1 << 62 if size is None else max(size - 1, 0)


def factors(e: Expr) -> set[str]:
    """Return the symbols that are at least 1 if ``e`` is: the factors of a product."""
    if len(e.terms) != 1:
        return set()
    out: set[str] = set()
    for a, _ in e.terms[0][0]:
        if isinstance(a, Func):
            if a.name == "CeilDiv":
                out |= factors(a.args[0])
        else:
            out.add(a.name)
    return out
