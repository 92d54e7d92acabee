"""Input data for mutants, chosen so that an error in a kernel shows in its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from autofuse.codegen.proofs.samples import legal_tiles, small_sizes
from autofuse.implgraph.expr.expression import Expr, Func
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.ops.registry import lookup
from autofuse.machines.twin.oracle.balanced import balanced_inputs
from autofuse.machines.twin.oracle.data import divisors, positive_inputs, random_inputs
from autofuse.machines.twin.oracle.sizes import largest_tensor, shapes_for
from autofuse.targets import load_target

__all__ = ["inputs_for", "is_large", "sizes_for", "sizes_that_fill", "tiles_for"]

#: Seeds of data with close comparisons (alternating for a one-element input), and of other data.
_BALANCED = range(16)
_MORE = range(100, 104)
#: Small values besides numbers around 1, near the constants that avoid a division by zero.
_SMALL = 2.0**-20
#: Half of the rise or fall of numbers over a tensor in other data: Exp of some of them is 0.
_SPREAD = 1000.0
#: Period in bytes of the rounded length of a buffer.
_PERIOD = load_target("ascend910b1").arch.bank_period
#: From this many elements in the largest tensor, a kernel gets less data, and one scheduler seed per tiling and data,
#: in turn: otherwise a surviving mutant would run for many minutes.
_LARGE = 1 << 15
#: From this length of a tiled axis, there may be many tiles with a short last one, and folded rows need scratch space:
#: with 8 and fewer they need none.
_LONG = 9
#: Maximum elements of the largest tensor when growing a kernel until its tiled axes are that long, and the number of
#: symbol bindings from which the smallest sufficient one is taken.
_GROWN = 1 << 16
_TRIED = 64
#: Row length that exceeds a single reduce instruction for every dtype.
_LONG_ROW = 129


def is_large(graph: FusionGraph, symbols: dict[str, int]) -> bool:
    """Return True if the kernel runs with less data and fewer schedules, to save time."""
    return largest_tensor(graph, symbols) >= _LARGE


def sizes_for(
    graph: FusionGraph, extents: Iterable[Expr], count: int, max_elements: int
) -> list[dict[str, int]]:
    """Return sizes to run mutants with: small ones, and larger ones for tiled axes that are short with all of these.

    An axis over a quotient of a size, such as the rows of one of 16 parts, may be empty for every small size, which
    would hide errors in the loops of its template.

    Args:
        graph: the graph.
        extents: lengths of the tiled axes, one for each template.
        count: number of small bindings.
        max_elements: maximum elements of the largest tensor, for small bindings.
    """
    out = shapes_for(graph, count, 0, max_elements=max_elements)
    short = [e for e in extents if not _reaches(e, out)]
    larger = shapes_for(graph, _TRIED, 0, max_elements=_GROWN) if short else []
    for s in sorted(larger, key=lambda s: largest_tensor(graph, s)):
        if any(_reaches(e, [s]) for e in short):
            out.append(s)
            short = [e for e in short if not _reaches(e, out)]
    return out


def sizes_that_fill(
    graph: FusionGraph, impls: Sequence[ImplGraph], sizes: Sequence[dict[str, int]], most: int
) -> list[dict[str, int]]:
    """Return sizes with which tensors fill buffers that have room left with ``sizes`` for all tiles.

    Buffer lengths are rounded up, so one more element, or some bytes less, may fit in the slack.  Rows of up to 256
    bytes need no scratch space, so every symbol also gets a size of several times that, with work to do.  Every
    template gets sizes that it accepts.

    Args:
        graph: the graph.
        impls: the templates.
        sizes: sizes that are tried anyway.
        most: maximum elements of the largest tensor, unless only larger sizes work.
    """
    small = shapes_for(graph, _TRIED, 0, max_elements=most)
    large = shapes_for(graph, _TRIED, 0, max_elements=_GROWN)
    tried = sorted((*small, *large), key=lambda s: largest_tensor(graph, s))
    out: list[dict[str, int]] = []
    for name in (s.name for s in graph.symbols):
        if not any(s[name] >= _LONG_ROW and largest_tensor(graph, s) for s in (*sizes, *out)):
            out += [s for s in tried if s[name] >= _LONG_ROW and largest_tensor(graph, s)][:1]
    # A template may accept only many and long rows.
    for impl in impls:
        if not any(_takes(impl, s) for s in (*sizes, *out)):
            fit = [s for s in small_sizes(impl) if _takes(impl, s)]
            out += sorted(fit, key=lambda s: largest_tensor(graph, s))[:2]
    for impl, nbytes in ((i, e) for i in impls for e in _rounded(i)):
        if any(_fills(impl, nbytes, s) for s in (*sizes, *out)):
            continue
        out += [s for s in tried if _fills(impl, nbytes, s)][:1]
    return out


def tiles_for(impl: ImplGraph, symbols: dict[str, int]) -> list[int]:
    """Return some legal tiles, including for every buffer one with the least slack."""
    name, legal = impl.tiling.opened.symbol, _many_tiles(impl, symbols)
    full = [
        # Take the longest of these: a function may need no scratch space for a shorter one.
        min(legal, key=lambda t: (_room(e, {**symbols, name: t}), -t))
        for e in (_rounded(impl) if legal else ())
        if name in e.symbols()
    ]
    return list(dict.fromkeys((*legal_tiles(impl, symbols, most=8), *full)))


def _takes(impl: ImplGraph, symbols: dict[str, int]) -> bool:
    conditions = impl.tiling.conditions
    return all(c.holds(symbols) for c in conditions) and bool(legal_tiles(impl, symbols))


def _rounded(impl: ImplGraph) -> list[Expr]:
    """Return the buffer lengths that depend on sizes."""
    return list(dict.fromkeys(b.nbytes for b in impl.buffers if not b.nbytes.is_const))


def _fills(impl: ImplGraph, nbytes: Expr, symbols: dict[str, int]) -> bool:
    """Return True if a tile longer than the shortest leaves no slack; the shortest may need no scratch space."""
    name, legal = impl.tiling.opened.symbol, _many_tiles(impl, symbols)
    longer = [t for t in legal if t > min(legal)] or legal
    return any(_room(nbytes, {**symbols, name: t}) < 32 for t in longer)


def _many_tiles(impl: ImplGraph, symbols: dict[str, int]) -> list[int]:
    """Return legal tiles: all up to the length after which the slack repeats, and some longer ones."""
    spec = impl.tiling
    some = legal_tiles(impl, symbols, most=8)
    end = min(max(some, default=0), _PERIOD * spec.opened.granule)
    all_ = range(spec.opened.granule, end + 1, spec.opened.granule)
    fit = (t for t in all_ if spec.ub.evaluate({**symbols, spec.opened.symbol: t}) <= spec.ub_limit)
    return list(dict.fromkeys((*fit, *some)))


def _room(nbytes: Expr, values: dict[str, int]) -> Fraction:
    """Return the bytes by which the length of a buffer was rounded up."""
    return nbytes.evaluate(values) - _before_rounding(nbytes, values)


def _before_rounding(e: Expr, values: dict[str, int]) -> Fraction:
    atom, factor = None, 0
    if len(e.terms) == 1:
        (monomial, factor), *_ = e.terms
        atom = monomial[0][0] if len(monomial) == 1 and monomial[0][1] == 1 else None
    if isinstance(atom, Func) and atom.name == "Max" and factor == 1:
        return max(_before_rounding(a, values) for a in atom.args)
    if isinstance(atom, Func) and atom.name == "CeilDiv":
        value, divisor = (a.evaluate(values) for a in atom.args)
        return Fraction(factor * value, divisor)
    return Fraction(e.evaluate(values))


def _reaches(extent: Expr, sizes: Sequence[dict[str, int]]) -> bool:
    """Return True if an axis is long with one of the sizes, or has a constant length."""
    return extent.is_const or any(extent.evaluate(s) >= _LONG for s in sizes)


def inputs_for(graph: FusionGraph, symbols: dict[str, int], seed: int) -> list[dict[str, Any]]:
    """Return sets of inputs with these sizes, the most revealing first."""
    large = is_large(graph, symbols)
    close = (balanced_inputs(graph, symbols, s) for s in _BALANCED[: 1 if large else None])
    given = (
        random_inputs(graph, symbols, seed),
        *_exact_inputs(graph, symbols, seed),
        *_extremes(graph, symbols, seed),
        *close,
        *([] if large else [_small_inputs(graph, symbols, seed)]),
        *(random_inputs(graph, symbols, s) for s in (() if large else _MORE)),
    )
    return [x for x in given if x is not None]


def _small_inputs(graph: FusionGraph, symbols: dict[str, int], seed: int) -> dict[str, Any]:
    inputs = random_inputs(graph, symbols, seed)
    for name, x in inputs.items():
        if graph.tensors[name].dtype.name == "float32":
            x *= np.float32(_SMALL)
    return inputs


def _exact_inputs(graph: FusionGraph, symbols: dict[str, int], seed: int) -> list[dict[str, Any]]:
    """Return small integers and quarters, whose sums are exact, so that a missing element in a long sum shows."""
    types = {lookup(n.op).compute_type for n in graph.nodes}
    if "reduce" not in types or "gather" in types:
        return []
    inputs = random_inputs(graph, symbols, seed)
    some = positive_inputs(graph) | divisors(graph)
    for name, x in inputs.items():
        if x.dtype.kind == "i":
            inputs[name] = (x % 7 + 1).astype(x.dtype)
        elif x.dtype.kind == "f":
            inputs[name] = (np.rint(x * 4) / 4).astype(x.dtype)
            if name in some:
                inputs[name][inputs[name] == 0] = 0.25
    return [inputs]


def _extremes(graph: FusionGraph, symbols: dict[str, int], seed: int) -> list[dict[str, Any]]:
    """Return inputs all below 0, all above, falling or rising from row to row, with peaks, and with NaN rows.

    A maximum or minimum of many random numbers is far from 0 and similar for all rows; it would hide an accumulator
    that starts with 0, or with the value of the previous row.  The value left by a NaN row shows.
    """
    if not any(n.op.startswith("Reduce") or n.op.endswith("Softmax") for n in graph.nodes):
        return []
    inputs = random_inputs(graph, symbols, seed)
    floats = {n: x for n, x in inputs.items() if x.dtype.kind == "f" and x.size}
    rank = max((x.ndim for x in floats.values()), default=0)
    changes = [_with_nan, *(partial(_with_infinities, d=d) for d in range(rank))]
    lost = [{**inputs, **{n: f(x) for n, x in floats.items()}} for f in changes]
    if not any(n.op.endswith(("ReduceMax", "ReduceMin", "Softmax")) for n in graph.nodes):
        return lost
    out = []
    for sign in (-1, 1):
        inputs = random_inputs(graph, symbols, seed)
        numbers = {n: x for n, x in inputs.items() if x.dtype.kind in "fi"}
        out.append({**inputs, **{n: (sign * abs(x)).astype(x.dtype) for n, x in numbers.items()}})
        falling = dict(inputs)
        for n, x in numbers.items():
            line = np.linspace(-sign, sign, x.size).reshape(x.shape)
            falling[n] = (x + _SPREAD * line).astype(x.dtype)
        out.append(falling)
    out.append({**inputs, **{n: _lowest(x) for n, x in floats.items()}})
    peaks = [{n: _with_peaks(x, place) for n, x in floats.items()} for place in (0, -1)]
    return out + [{**inputs, **p} for p in peaks] + lost


def _with_peaks(x: np.ndarray, place: int) -> np.ndarray:
    """Return ``x`` with the first or last element along every dimension far above the others, so only it counts."""
    out = x.copy()
    for d in range(x.ndim):
        out[(slice(None),) * d + (place,)] += x.dtype.type(2 * _SPREAD)
    return out


def _lowest(x: np.ndarray) -> np.ndarray:
    """Return the lowest number everywhere: no initial value of an accumulator is below it."""
    return np.full_like(x, np.finfo(x.dtype).min if x.dtype.itemsize > 2 else x.dtype.type(-65504))


def _with_nan(x: np.ndarray) -> np.ndarray:
    """Return ``x`` with NaN as the first element."""
    out = x.copy()
    out.reshape(-1)[0] = np.nan
    return out


def _with_infinities(x: np.ndarray, d: int) -> np.ndarray:
    """Return ``x`` with -inf first along a dimension, and NaN as the last element of all."""
    out = x.copy()
    if d < x.ndim:
        out[(slice(None),) * d + (0,)] = -np.inf
    out.reshape(-1)[-1] = np.nan
    return out
