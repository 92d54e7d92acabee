"""The ranking of templates: which of a group are kept, and in which order, by modelled cycles at typical sizes.

Model figures, not measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autofuse.implgraph.ir.graph import ImplGraph, TilingSpec
from autofuse.schedule.axes.tile_limits import sample_env
from autofuse.schedule.axes.tiling_axes import GroupInput
from autofuse.schedule.cost.alike import named_for
from autofuse.schedule.cost.cost_form import TICK_BITS, costs_as
from autofuse.schedule.cost.solver import comparable, solve_template
from autofuse.schedule.templates import general, reduce, scan
from autofuse.targets import TargetSpec

__all__ = ["Ranked", "Ranking", "in_order", "modelled_cycles", "select"]


class Ranked(NamedTuple):
    """A template, its number among those that were tried, and its modelled cycles."""

    cycles: float
    number: int
    impl: ImplGraph


class Ranking:
    """Modelled cycles of the templates of a group, and of others that do the same to other tensors."""

    def __init__(self, g: GroupInput) -> None:
        self.target, self._group = g.target, g
        self._known: dict[int, tuple[ImplGraph, float]] = {}
        self._dropped: dict[int, ImplGraph] = {}

    def drop(self, number: int, impl: ImplGraph) -> None:
        """Say that a template is not kept, and so need not be made for groups that do the same."""
        self._dropped.setdefault(number, impl)

    def dropped(self, number: int, g: GroupInput, suffix: str) -> ImplGraph | None:
        """What stands for a template in a group that does the same as one which has dropped it; None for others."""
        impl = self._dropped.get(number)
        return None if impl is None else named_for(impl, self._group, g, suffix)

    def of(self, made: Sequence[tuple[int, ImplGraph]], keep: int) -> list[Ranked]:
        """The templates, the best first; with 0 cycles where nothing depends on what they take.

        Args:
            made: numbers and templates.
            keep: how many of them are kept.
        """
        settled = len(made) <= keep and _in_one_order([impl for _, impl in made])
        found = [
            Ranked(self._cycles(number, impl, settled=settled), number, impl)
            for number, impl in made
        ]
        if not settled:
            found.sort(key=lambda r: (comparable(r.cycles, r.impl, self.target), r.number))
        return found

    def _cycles(self, number: int, impl: ImplGraph, *, settled: bool) -> float:
        if number in self._known:
            like, cycles = self._known[number]
            costs_as(impl, like, self.target)
            return cycles
        cycles = 0.0 if settled else modelled_cycles(impl, self.target)
        self._known[number] = (impl, cycles)
        return cycles


def modelled_cycles(impl: ImplGraph, target: TargetSpec) -> float:
    """Modelled cycles of a template at typical sizes, with the tiling that the host function would choose.

    Without what all templates have in common, the start of a kernel; infinite where the template is not legal.
    """
    found = solve_template(impl, target, sample_env(impl))
    return float("inf") if found is None else found.cost / (1 << TICK_BITS)


def select(ranked: Sequence[Ranked], keep: int, *, symbolic: bool, alone: bool) -> list[ImplGraph]:
    """The best ``keep`` templates; with symbols the one that is always legal stays among them.

    What is for long rows alone gets no place there that another one needs for other sizes, but one of its own in a
    kernel of one group.

    Args:
        ranked: all templates, the best first.
        keep: how many are kept.
        symbolic: the graph has symbols.
        alone: the kernel has one group.
    """
    impls = [r.impl for r in ranked]
    chosen = [impl for impl in impls if not (symbolic and general.is_of_rows(impl))][:keep]
    if symbolic:
        more = [impl for impl in impls if general.is_of_rows(impl)]
        chosen += more[: max(keep - len(chosen), int(alone))]
    always = _always_legal(impls)
    if symbolic and always is not None and not any(i is always for i in chosen):
        chosen[-1] = always
    return chosen


def in_order(chosen: Sequence[ImplGraph], ranked: Sequence[Ranked]) -> tuple[ImplGraph, ...]:
    """Those that are kept, the one that is legal for every size first."""
    always = _always_legal([r.impl for r in ranked])
    return tuple(sorted(chosen, key=lambda i: _place(i, always)))


def _place(impl: ImplGraph, always: ImplGraph | None) -> tuple[bool, bool]:
    """What decides about the order of templates before their costs do."""
    return impl is not always, bool(impl.suffix)


def _in_one_order(impls: Sequence[ImplGraph]) -> bool:
    """Whether the order of templates that are all kept does not depend on what they cost."""
    always = [i for i in impls if _is_always_legal(i)]
    places = {_place(i, always[0] if always else None) for i in impls}
    return len(always) < 2 and len(places) == len(impls)


def _always_legal(impls: Sequence[ImplGraph]) -> ImplGraph | None:
    """The template that is legal for every size."""
    return next(filter(_is_always_legal, impls), None)


def _is_always_legal(impl: ImplGraph) -> bool:
    if impl.template in (reduce.LOOP, scan.LOOP):
        return _takes_every_size(impl.tiling)
    return impl.template == general.NAME and not impl.suffix


def _takes_every_size(spec: TilingSpec) -> bool:
    """Whether the smallest tile fits UB and a DMA command whatever the sizes are."""
    if spec.conditions or spec.row_elements == 1:
        return not spec.conditions
    if not (spec.extent * spec.outer * spec.reduce_outer).symbols():
        return False  # nothing else is asked for
    limited = spec.tile_max is not None and not spec.tile_max.is_const
    return not limited and spec.ub.symbols() <= {spec.tile_size}
