"""Sample sizes and tile lengths of a template, to refute obligations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autofuse.implgraph.ir.fusion import Symbol
from autofuse.implgraph.ir.graph import Condition, ImplGraph
from autofuse.implgraph.ops.requirements import Requirement

__all__ = ["legal_tiles", "small_sizes"]

_SIZES = (1, 2, 3, 5, 8, 17, 64, 129, 0, 1000)


def small_sizes(impl: ImplGraph, needed: Sequence[Requirement] = ()) -> Iterator[dict[str, int]]:
    """Yield consistent values of the graph's symbols, within their ranges and the template's conditions."""
    names = [s.name for s in impl.symbols]
    choices: list[list[int]] = []
    step = max((c.multiple_of for c in impl.tiling.conditions), default=1)
    for s in impl.symbols:
        own = [v for v in _SIZES if s.min <= v <= s.max] or [s.min]
        own += [step * v for v in (1, 2, 3) if step > 1 and s.min <= step * v <= s.max]
        own += [v for c in impl.tiling.conditions for v in _least(impl, c, s)]
        choices.append(list(dict.fromkeys(own)))
    for values in _mixed(choices):
        env = dict(zip(names, values, strict=True))
        if all(c.holds(env) for c in impl.tiling.conditions) and all(r.holds(env) for r in needed):
            yield env


def _least(impl: ImplGraph, c: Condition, s: Symbol) -> list[int]:
    """Return the smallest values of a symbol that satisfy a lower bound, if the usual small ones do not."""
    env = {other.name: max(other.min, 1) for other in impl.symbols}
    low, high = s.min, s.max

    def enough(v: int) -> bool:
        return c.value.evaluate({**env, s.name: v}) >= (c.at_least or 0)

    if s.name not in c.value.symbols() or enough(min(high, max(_SIZES))) or not enough(high):
        return []
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return [v for v in (low, low + 1, low + 129) if v <= s.max]


def _mixed(choices: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """Yield part of the product: every value of every list, in varying combinations."""
    if not choices:
        yield ()
        return
    seen = set()
    for shift in range(8):
        for i in range(max(map(len, choices))):
            row = tuple(c[(i + shift * n) % len(c)] for n, c in enumerate(choices))
            if row not in seen:
                seen.add(row)
                yield row


def legal_tiles(impl: ImplGraph, sizes: Mapping[str, int], most: int = 6) -> list[int]:
    """Return tile lengths that the host may choose: ends of the range, and some with short tails."""
    spec = impl.tiling
    extent = spec.opened.longest.evaluate(sizes)
    if not extent * spec.outer.evaluate(sizes) * spec.row_elements.evaluate(sizes):
        return []
    top = min(extent, spec.opened.most.evaluate(sizes) if spec.opened.most is not None else extent)

    def fits(t: int) -> bool:
        return spec.ub.evaluate({**sizes, spec.opened.symbol: t}) <= spec.ub_limit

    if extent <= spec.opened.granule:
        whole = max(extent, 1)
        ok = spec.opened.most is None or whole <= spec.opened.most.evaluate(sizes)
        return [whole] if ok and fits(whole) else []
    count = top // spec.opened.granule
    wanted = {1, 2, 3, 7, 32, count // 3, count // 2, count - 1, count}
    tiles = [n * spec.opened.granule for n in sorted(wanted) if 1 <= n <= count]
    if top == extent:
        tiles.append(extent)
    tiles = [t for t in dict.fromkeys(tiles) if fits(t)]
    return tiles if len(tiles) <= most else [*tiles[: most - 2], *tiles[-2:]]
