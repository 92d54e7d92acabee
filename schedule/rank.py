"""Ranking of templates by modelled cycles: selects and orders the templates of a graph.

Keeps the templates that win at some point of the grid (``schedule.search.grid``), and one that is legal for every size.
Figures come from the model, not from measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.tile_limits import sample_env
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.grid import Point
from autofuse.schedule.search.solver import comparable, solve_template

__all__ = [
    "Kept",
    "Made",
    "Times",
    "Tried",
    "form_times",
    "in_order",
    "modelled_cycles",
    "needed",
    "select",
    "slower_words",
    "totals",
    "why_left_out",
]

#: A template is kept only if it saves more than this fraction of the time at some point; the second value applies where
#: less than the whole chip is granted.
LITTLE, LIMITED = 1 / 64, 1 / 4
#: Maximum branches of one kernel per form; those of several groups multiply.
MAX_KEYS = 16
#: Beyond this multiple of ``LITTLE``, only legality counts.
MOST_LITTLE = 1 << 16


class Made(NamedTuple):
    """A template that could be made.

    Attributes:
        always: sizes are known only at run time, and it is legal for all of them with half of UB.
    """

    impl: ImplGraph
    always: bool


class Tried(NamedTuple):
    """The templates of a group; ``barrier``: all cores synchronise before it."""

    made: tuple[Made, ...]
    barrier: bool


class Times(NamedTuple):
    """Modelled cycles of a template at several points, infinite where it is illegal or slower than others.

    Attributes:
        cycles: cycles with the tiling that the host function would choose, without kernel start.
        counted: cycles as compared with those of other templates.
    """

    cycles: tuple[float, ...]
    counted: tuple[float, ...]


def modelled_cycles(impl: ImplGraph, costs: Costs) -> float:
    """Return the modelled cycles of a template at typical sizes; infinite where it is illegal."""
    found = solve_template(impl, costs, sample_env(impl))
    return math.inf if found is None else found.cycles


class Kept(NamedTuple):
    """The kept templates of a group.

    Attributes:
        at: their indices.
        times: times of all templates; empty if there is only one.
    """

    at: Sequence[int]
    times: Sequence[Times]


def totals(times: Sequence[Sequence[Times]], barriers: float) -> list[float]:
    """Return the modelled cycles of a form at all points; infinite where a group has no legal template.

    Args:
        times: times of the templates of every group.
        barriers: cycles of the barriers.
    """
    paired = ([zip(t.counted, t.cycles, strict=True) for t in group] for group in times)
    best = ([min(at)[1] for at in zip(*group, strict=True)] for group in paired)
    return [barriers + sum(at) for at in zip(*best, strict=True)]


def form_times(
    form: Sequence[Tried], points: Sequence[Point], costs: Costs, *, alone: bool
) -> list[list[Times]]:
    """Return the times of the templates of every group; none if one form has one template."""
    wider = _wider(points)
    return [
        [] if alone and len(g.made) == 1 else _compared(g.made, points, wider, costs) for g in form
    ]


def _compared(
    made: Sequence[Made], points: Sequence[Point], wider: Sequence[int | None], costs: Costs
) -> list[Times]:
    """Return the times of the templates of a group.

    With fewer resources a template takes at least as long, so skip those that are slower than the fastest even with
    more.
    """
    weights = [comparable(1.0, m.impl, costs) for m in made]
    cycles: list[list[float]] = [[] for _ in made]
    for p, w in zip(points, wider, strict=True):
        more = [
            0.0 if w is None else c[w] * weight for c, weight in zip(cycles, weights, strict=True)
        ]
        least = math.inf
        for i in sorted(range(len(made)), key=more.__getitem__):
            if w is not None and more[i] > least:
                # Templates that are legal for every size are legal here too, and take at least as long.
                cycles[i].append(cycles[i][w] if made[i].always else math.inf)
                continue
            found = solve_template(made[i].impl, costs, p.sizes, p.ub, p.cores)
            cycles[i].append(math.inf if found is None else found.cycles)
            least = min(least, cycles[i][-1] * weights[i])
    return [
        Times(tuple(c), tuple(t * weight for t in c))
        for c, weight in zip(cycles, weights, strict=True)
    ]


def _wider(points: Sequence[Point]) -> list[int | None]:
    """Return, for each point, the last earlier one with the same sizes that grants no less."""
    return [
        next((w for w in reversed(range(k)) if points[w].includes(p)), None)
        for k, p in enumerate(points)
    ]


def select(
    forms: Sequence[Sequence[Tried]], points: Sequence[Point], costs: Costs
) -> list[list[Kept] | None]:
    """Return the kept templates of the groups of every form; None for a form that is left out.

    Args:
        forms: the ways to divide a graph into groups.
        points: the points at which they are compared.
        costs: costs of the graph's templates.
    """
    alone = len(forms) == 1
    times = [form_times(f, points, costs, alone=alone) for f in forms]
    if alone:
        return [_of_form(forms[0], times[0], points)]
    barrier = costs.target.sync_all
    whole = [
        totals(t, barrier * sum(g.barrier for g in f)) for f, t in zip(forms, times, strict=True)
    ]
    always = [all(any(m.always for m in g.made) for g in f) for f in forms]
    kept = needed(whole, _slack(points, 1), always)
    out: list[list[Kept] | None] = [None] * len(forms)
    for k in kept:
        won = [p for p in range(len(points)) if whole[k][p] == min(whole[i][p] for i in kept)]
        out[k] = _of_form(forms[k], times[k], points, won)
    return out


def _of_form(
    form: Sequence[Tried],
    times: Sequence[Sequence[Times]],
    points: Sequence[Point],
    won: Sequence[int] | None = None,
) -> list[Kept]:
    """Return the templates that each group keeps; ``won``: the points where this form is the fastest, None for all."""
    at = range(len(points)) if won is None else won
    more = 1
    while True:
        slack = _slack([points[p] for p in at], more)
        kept = [
            needed([[t.counted[p] for p in at] for t in ts], slack, [m.always for m in g.made])
            if ts
            else [0]
            for g, ts in zip(form, times, strict=True)
        ]
        if math.prod(map(len, kept)) <= MAX_KEYS or more > MOST_LITTLE:
            return [Kept(k, ts) for k, ts in zip(kept, times, strict=True)]
        more *= 2


def _slack(points: Sequence[Point], more: int) -> list[float]:
    return [more * (LIMITED if p.limited else LITTLE) for p in points]


def needed(
    times: Sequence[Sequence[float]], slack: Sequence[float], always: Sequence[bool]
) -> list[int]:
    """Return the indices of the templates without which some point would exceed the allowed loss of time.

    They include one that is legal for every size, if there is any.

    Args:
        times: times of each template at all points; infinite where it is illegal.
        slack: fraction of the least time that may be lost at a point.
        always: for each template, True if it is legal for every size.
    """
    count = len(times)
    wins = [0] * count
    limits = []
    for part, at in zip(slack, zip(*times, strict=True), strict=True):
        least = min(at)
        wins[at.index(least)] += least < math.inf
        limits.append(least + least * part)
    kept = [i for i in range(count) if wins[i]]
    if any(always) and not any(always[i] for i in kept):
        kept.append(min((i for i in range(count) if always[i]), key=lambda i: times[i][0]))
    kept = kept or [0]
    for i in sorted(kept, key=lambda i: (always[i], wins[i], -i)):
        rest = [k for k in kept if k != i]
        legal = any(always[k] for k in rest) or not always[i]
        if rest and legal and _within(limits, [times[k] for k in rest]):
            kept = rest
    return sorted(kept)


def _within(limits: Sequence[float], times: Sequence[Sequence[float]]) -> bool:
    """Return True if, at every point, the fastest one stays within the limit."""
    return all(min(at) <= most for most, *at in zip(limits, *times, strict=True))


def in_order(made: Sequence[Made], kept: Kept) -> tuple[ImplGraph, ...]:
    """Return the kept templates: one that is legal for every size first, then by cycles at typical sizes."""
    ranked = sorted(kept.at, key=lambda i: (kept.times[i].counted[0] if kept.times else 0, i))
    first = next((i for i in ranked if made[i].always), None)
    order = sorted(ranked, key=lambda i: (i != first, bool(made[i].impl.suffix)))
    return tuple(made[i].impl for i in order)


def why_left_out(made: Sequence[Made], kept: Kept, left: int) -> str:
    """Return the reason why a template of a group is not kept."""
    own = kept.times[left]
    points = len(own.cycles)
    others = zip(*(kept.times[i].counted for i in kept.at), strict=True)
    best = [(min(at), t) for at, t in zip(others, own.counted, strict=True)]
    gains = [least / t - 1 for least, t in best if t < least < math.inf]
    if all(map(math.isinf, own.cycles)):
        return f"not legal at any of the {points} points of the grid"
    if gains:
        return (
            f"never more than {100 * max(gains):.1f} % faster than the kept templates, "
            f"on the grid of {points} points"
        )
    first = min(range(len(made)), key=lambda i: (kept.times[i].counted[0], i))
    slower = slower_words(own.cycles[0], made[first].impl.title, kept.times[first].cycles[0])
    return f"never the fastest on the grid of {points} points; {slower}"


def slower_words(cycles: float, better: str, least: float) -> str:
    """Return the reason why another template or form is better; ``cycles`` are infinite where this one is illegal."""
    if math.isinf(cycles):
        return "not legal at typical sizes"
    if round(cycles) > round(least):
        figures = f"{cycles:,.0f} instead of {least:,.0f} cycles at typical sizes"
        return f"slower by the model than {better}: {figures}"
    if round(cycles) == round(least):
        return f"as fast by the model as {better}: {cycles:,.0f} cycles at typical sizes"
    return f"reloads data that {better} keeps in UB, and saves little by the model"
