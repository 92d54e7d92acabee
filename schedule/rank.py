"""The ranking of templates: which of a group are kept, and in which order, by modelled cycles at typical sizes.

Model figures, not measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.tile_limits import sample_env
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import comparable, solve_template

__all__ = ["Made", "Ranked", "in_order", "modelled_cycles", "rank", "select"]


class Made(NamedTuple):
    """A template that has been made.

    Attributes:
        number: among those that were tried.
        always: it is legal for every size.
        special: it is for some sizes alone, and has no place that another one needs.
    """

    number: int
    impl: ImplGraph
    always: bool
    special: bool


class Ranked(NamedTuple):
    """A template and its modelled cycles."""

    cycles: float
    made: Made


def rank(made: Sequence[Made], keep: int, costs: Costs) -> list[Ranked]:
    """The templates of a group, the best first; with 0 cycles where nothing depends on what they take.

    Args:
        made: the templates.
        keep: how many of them are kept.
        costs: of the templates of the graph.
    """
    if len(made) <= keep and _in_one_order(made):
        return [Ranked(0.0, m) for m in made]
    found = [Ranked(modelled_cycles(m.impl, costs), m) for m in made]
    return sorted(found, key=lambda r: (comparable(r.cycles, r.made.impl, costs), r.made.number))


def modelled_cycles(impl: ImplGraph, costs: Costs) -> float:
    """Modelled cycles of a template at typical sizes, with the tiling that the host function would choose.

    Without what all templates have in common, the start of a kernel; infinite where the template is not legal.
    """
    found = solve_template(impl, costs, sample_env(impl))
    return float("inf") if found is None else found.cycles


def select(ranked: Sequence[Ranked], keep: int, *, symbolic: bool, alone: bool) -> list[Made]:
    """The best ``keep`` templates; with symbols the one that is always legal stays among them.

    What is for some sizes alone gets no place there that another one needs for other sizes, but one of its own in a
    kernel of one group.

    Args:
        ranked: all templates, the best first.
        keep: how many are kept.
        symbolic: the graph has symbols.
        alone: the kernel has one group.
    """
    made = [r.made for r in ranked]
    if not symbolic:
        return made[:keep]
    chosen = [m for m in made if not m.special][:keep]
    chosen += [m for m in made if m.special][: max(keep - len(chosen), int(alone))]
    always = _always_legal(made)
    if always is not None and not any(m is always for m in chosen):
        chosen[-1] = always
    return chosen


def in_order(chosen: Sequence[Made], ranked: Sequence[Ranked]) -> tuple[ImplGraph, ...]:
    """Those that are kept, the one that is legal for every size first."""
    always = _always_legal([r.made for r in ranked])
    return tuple(m.impl for m in sorted(chosen, key=lambda m: _place(m, always)))


def _place(made: Made, always: Made | None) -> tuple[bool, bool]:
    """What decides about the order of templates before their costs do."""
    return made is not always, bool(made.impl.suffix)


def _in_one_order(made: Sequence[Made]) -> bool:
    """Whether the order of templates that are all kept does not depend on what they cost."""
    always = [m for m in made if m.always]
    places = {_place(m, always[0] if always else None) for m in made}
    return len(always) < 2 and len(places) == len(made)


def _always_legal(made: Sequence[Made]) -> Made | None:
    """The template that is legal for every size."""
    return next((m for m in made if m.always), None)
