"""Test sizes of a kernel: ends of ranges, primes, neighbours of hardware-friendly sizes."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.fusion import FusionGraph, Symbol
from autofuse.implgraph.ops.requirements import Requirement, requirements
from autofuse.machines.twin.oracle.oracle import shape_of

__all__ = ["MAX_ELEMENTS", "fitted", "largest_tensor", "shapes_for", "sizes_with"]

MAX_ELEMENTS = 1 << 20
#: Most requirements that are repaired one after another.
_MOST_MENDED = 32

# One less and one more than multiples of 8, 16, 32, 64 elements; primes; lengths around a repeat of
# the vector unit.
_SIZES = (
    *(2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 37, 63, 64, 65, 97, 127, 128, 129),
    *(211, 255, 256, 257, 509, 512, 1000, 1021, 1023, 1025, 2047, 2049, 4093, 8191, 10007, 65537),
)


def shapes_for(
    graph: FusionGraph, count: int = 6, seed: int = 0, *, max_elements: int = MAX_ELEMENTS
) -> list[dict[str, int]]:
    """Return up to ``count`` bindings of the symbols; one empty binding for a graph without symbols.

    The first has the hints, then come the smallest sizes (0 where allowed), 1, and random mixes of awkward sizes; the
    last is as large as ``max_elements`` per tensor allows. Sizes that are invalid for an op are omitted.

    Args:
        graph: the graph.
        count: number of bindings wanted; there may be fewer.
        seed: seed of the random mixes.
        max_elements: most elements of a tensor with a symbolic size, unless the smallest sizes already need more.
    """
    if not graph.symbols or count < 1:
        return [{}]
    rng = random.Random(seed)
    tries: list[dict[str, int]] = [
        {s.name: _typical(s) for s in graph.symbols},
        {s.name: s.min for s in graph.symbols},
        {s.name: max(s.min, min(1, s.max)) for s in graph.symbols},
        {s.name: s.max for s in graph.symbols},
    ]
    if len(graph.symbols) > 1:  # one size at its lower end beside ordinary ones
        tries += [
            {x.name: x.min if x is s else _awkward(x, rng) for x in graph.symbols}
            for s in graph.symbols
        ]
    tries += [{s.name: _awkward(s, rng) for s in graph.symbols} for _ in range(4 * count)]
    # The largest one is tried even if few are wanted; mixes come before the third end of the ranges.
    order = [0, 1, 3, *range(4, len(tries))] if count < 4 else list(range(len(tries)))
    out: list[dict[str, int]] = []
    needed = requirements(graph)
    for i in order:
        fitted = _fit(graph, tries[i], max_elements, needed)
        if fitted is not None and fitted not in out:
            out.append(fitted)
        if len(out) == count:
            break
    if not out:
        text = f"found no sizes for which {graph.label} is defined"
        needed_of = "; ".join(f"not: {r.text}" for r in needed)
        raise AutofuseError.of("AF5007", text, hint=needed_of)
    return out


def sizes_with(graph: FusionGraph, fixed: Mapping[str, int]) -> dict[str, int]:
    """Return a size for every symbol: some are fixed, the others typical and valid for the graph.

    Raises:
        AutofuseError: AF1109, there are no such sizes.
    """
    if not graph.symbols:
        return {}
    free = tuple(s for s in graph.symbols if s.name not in fixed)
    needed = requirements(graph)
    sizes = {s.name: _typical(s) for s in free} | dict(fixed)
    if free:
        found = _fit(graph, sizes, MAX_ELEMENTS, needed, free)
    else:
        found = sizes if all(r.holds(sizes) for r in needed) else None
    if found is None:
        broken = next((r.text for r in needed if not r.holds(sizes)), "a tensor has no size")
        label = graph.symbol_labels()
        given = ", ".join(f"{label[n]} = {v}" for n, v in fixed.items())
        raise AutofuseError.of("AF1109", f"cannot run with {given}: {broken}")
    return found


def largest_tensor(
    graph: FusionGraph, symbols: dict[str, int], *, varying: Collection[str] | None = None
) -> int:
    """Return the elements of the largest tensor.

    Args:
        graph: the graph.
        symbols: their sizes.
        varying: consider only tensors whose shape has one of these symbols; None: all.

    Raises:
        ExprError: a shape has no value for these sizes.
    """
    largest = 0
    for t in graph.tensors.values():
        shape = shape_of(t.shape, symbols)
        if any(n < 0 for n in shape):
            raise ExprError(f"{t.name} has the shape {shape}")
        if varying is not None and not any(n.symbols() & set(varying) for n in t.shape):
            continue
        n = 1
        for size in shape:
            n *= size
        largest = max(largest, n)
    return largest


def fitted(
    graph: FusionGraph, sizes: Mapping[str, int], *, max_elements: int = MAX_ELEMENTS
) -> dict[str, int] | None:
    """Return valid sizes near these, within the ranges of the symbols; None if none were found.

    Args:
        graph: the graph.
        sizes: a size for each of them.
        max_elements: as for :func:`shapes_for`.
    """
    within = {s.name: max(s.min, min(sizes[s.name], s.max)) for s in graph.symbols}
    return _fit(graph, within, max_elements, requirements(graph))


def _typical(s: Symbol) -> int:
    return max(s.min, min(s.max, 64 if s.hint is None else s.hint))


def _awkward(s: Symbol, rng: random.Random) -> int:
    fitting: Sequence[int] = [
        n for n in (*_SIZES, s.min, s.min + 1, s.max - 1) if s.min <= n <= s.max
    ]
    return rng.choice(fitting)


def _fit(
    graph: FusionGraph,
    sizes: dict[str, int],
    max_elements: int,
    needed: Sequence[Requirement],
    free: Sequence[Symbol] | None = None,
) -> dict[str, int] | None:
    """Lower the largest sizes until all tensors are small enough; return None if the sizes are invalid.

    ``free``: symbols whose sizes may change; None: all.
    """
    sizes, free = dict(sizes), graph.symbols if free is None else free
    low = {s.name: s.min for s in free}
    try:
        # A tensor that no symbol shrinks, such as an embedding table, is no reason for small sizes.
        while largest_tensor(graph, sizes, varying=low) > max_elements:
            name = max(low, key=lambda n: (sizes[n] > low[n], sizes[n]))
            if sizes[name] <= low[name]:
                break
            # Keep odd sizes odd; 1 would halve to itself, so it decreases by one.
            half = sizes[name] // 2 | (sizes[name] & 1)
            sizes[name] = max(low[name], min(half, sizes[name] - 1))
        return sizes if all(r.holds(sizes) for r in needed) else _mended(free, sizes, needed)
    except ExprError:
        return None


def _mended(
    free: Sequence[Symbol], sizes: dict[str, int], needed: Sequence[Requirement]
) -> dict[str, int] | None:
    """Return sizes near these that are valid for the graph; None if none were found."""
    symbols = {s.name: s for s in free}
    for _ in range(_MOST_MENDED):
        broken = next((r for r in needed if not r.holds(sizes)), None)
        if broken is None:
            return sizes
        # Prefer the smallest change of one symbol that suffices and breaks the fewest other requirements.
        names = sorted(broken.value.symbols() & set(symbols))
        found = [n for x in names if (n := _nearest(symbols[x], sizes, broken)) is not None]
        if not found:
            # If no single symbol suffices, move the most effective one to its limit; the others follow.
            ends = [{**sizes, x: e} for x in names for e in (symbols[x].min, symbols[x].max)]
            best = max(ends, key=lambda n: broken.value.evaluate(n), default=sizes)
            if broken.value.evaluate(best) <= broken.value.evaluate(sizes):
                return None
            sizes = best
            continue
        before = sizes

        def cost(n: dict[str, int], before: dict[str, int] = before) -> tuple[int, int]:
            return sum(not r.holds(n) for r in needed), sum(abs(n[x] - before[x]) for x in symbols)

        sizes = min(found, key=cost)
    return None


def _nearest(s: Symbol, sizes: dict[str, int], needed: Requirement) -> dict[str, int] | None:
    """Return the sizes with the nearest sufficient value of one symbol, if the requirement is monotonic in it."""
    for end in (s.max, s.min):
        good, bad = end, sizes[s.name]
        if not needed.holds({**sizes, s.name: good}):
            continue
        while abs(good - bad) > 1:
            middle = (good + bad) // 2
            if needed.holds({**sizes, s.name: middle}):
                good = middle
            else:
                bad = middle
        return {**sizes, s.name: good}
    return None
