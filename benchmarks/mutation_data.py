"""Data that mutants run on, chosen so that an error in a kernel shows in its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from autofuse.implgraph.expr import Expr
from autofuse.implgraph.fusion import FusionGraph
from autofuse.implgraph.ops import lookup
from autofuse.twin.balanced import balanced_inputs
from autofuse.twin.data import divisors, positive_inputs, random_inputs
from autofuse.twin.sizes import largest_tensor, shapes_for

__all__ = ["inputs_for", "is_large", "sizes_for"]

#: Seeds of data for which comparisons are close (for an input of one element they take turns), and of other data.
_BALANCED = range(16)
_MORE = range(100, 104)
#: Beside numbers around 1, such as are near the constants by which a division by zero is avoided.
_SMALL = 2.0**-20
#: Half of what numbers rise or fall by over a tensor, in other data: Exp of a part of it is 0.
_SPREAD = 1000.0
#: Elements of the largest tensor from which on a kernel has few of the data, and one seed of the scheduler for each
#: tiling and data, by turns: else a mutant that lives would run for many minutes.
_LARGE = 1 << 15
#: Length of a tiled axis from which on its tiles may be many, with a short last one, and rows that are folded need
#: scratch space: with 8 and fewer they need none.
_LONG = 9
#: Elements of the largest tensor to which a kernel may grow until its tiled axes are that long, and bindings of its
#: symbols from which the smallest with that is taken.
_GROWN = 1 << 16
_TRIED = 64


def is_large(graph: FusionGraph, symbols: dict[str, int]) -> bool:
    """Whether the kernel is tried with fewer data and schedules, for the time that it takes."""
    return largest_tensor(graph, symbols) >= _LARGE


def sizes_for(
    graph: FusionGraph, extents: Iterable[Expr], count: int, max_elements: int
) -> list[dict[str, int]]:
    """Sizes to run mutants with: small ones, and larger ones for tiled axes that are short with all of these.

    An axis of the quotient of a size, such as the rows of one of 16 parts, may be empty with every small size, so that
    nothing in the loops of its template can show.

    Args:
        graph: whose symbols.
        extents: lengths of the tiled axes, one for each template.
        count: number of small bindings.
        max_elements: of the largest tensor, for small bindings.
    """
    out = shapes_for(graph, count, 0, max_elements=max_elements)
    short = [e for e in extents if not _reaches(e, out)]
    larger = shapes_for(graph, _TRIED, 0, max_elements=_GROWN) if short else []
    for s in sorted(larger, key=lambda s: largest_tensor(graph, s)):
        if any(_reaches(e, [s]) for e in short):
            out.append(s)
            short = [e for e in short if not _reaches(e, out)]
    return out


def _reaches(extent: Expr, sizes: Sequence[dict[str, int]]) -> bool:
    """Whether an axis is long with one of the sizes, or has a length that no size changes."""
    return extent.is_const or any(extent.evaluate(s) >= _LONG for s in sizes)


def inputs_for(graph: FusionGraph, symbols: dict[str, int], seed: int) -> list[dict[str, Any]]:
    """Sets of inputs with these sizes, those first that show most errors."""
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
    """Small integers and quarters, of which sums are exact: one element less in a long sum shows."""
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
    """Inputs all below 0, all above, falling or rising from row to row, with peaks; rows that are no numbers.

    A maximum or minimum of many random numbers is far from 0 and nearly the same for every row; an accumulator that
    starts with 0, or with what the row before left, would not show.  What is left by a row that is NaN does.
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
    """The first or last element along every dimension is far above the others: the largest one, which alone counts."""
    out = x.copy()
    for d in range(x.ndim):
        out[(slice(None),) * d + (place,)] += x.dtype.type(2 * _SPREAD)
    return out


def _lowest(x: np.ndarray) -> np.ndarray:
    """The lowest number everywhere: nothing that stands for no number yet is below it."""
    return np.full_like(x, np.finfo(x.dtype).min if x.dtype.itemsize > 2 else x.dtype.type(-65504))


def _with_nan(x: np.ndarray) -> np.ndarray:
    """The first element is NaN."""
    out = x.copy()
    out.reshape(-1)[0] = np.nan
    return out


def _with_infinities(x: np.ndarray, d: int) -> np.ndarray:
    """The first of what lies along a dimension is -inf, the last element of all is NaN."""
    out = x.copy()
    if d < x.ndim:
        out[(slice(None),) * d + (0,)] = -np.inf
    out.reshape(-1)[-1] = np.nan
    return out
