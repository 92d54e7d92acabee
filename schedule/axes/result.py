"""Results that the scheduler hands to code generation."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from autofuse.base.wording import Wording
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph
from autofuse.schedule.axes.rejection import UnmovedRow

__all__ = ["Group", "Rejected", "ScheduleResult", "Verdict", "tiling_keys"]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A template that was tried and dropped, and why.

    Attributes:
        group: of the template.
        template: its name.
        reason: for people, with the numbers that the model has for it.
        code: the diagnostic that the reason becomes if nothing else fits either.
        details: more to the reason, as the bytes of every buffer.
        title: how people call it beside others of the group; empty for ``template``.
        rows: tensors in GM whose rows the chip cannot move.
    """

    group: int
    template: str
    reason: str
    code: str = "AF3002"
    details: str = ""
    title: str = ""
    rows: tuple[UnmovedRow, ...] = ()

    @property
    def whole_reason(self) -> str:
        """The reason with its details."""
        return Wording("{}: {}", self.reason, self.details) if self.details else self.reason


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of a template that was tried, for watchers of the build.

    Attributes:
        cycles: modelled cycles at typical sizes, infinite where it is not legal there; None: it could not be made.
        reason: why it was dropped; empty for those that are kept.
    """

    template: str
    cycles: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes with one iteration space; ``impls`` are the templates to choose from at run time, best first.

    ``sync_before``: the group reads or overwrites what an earlier group's cores touch, so all cores meet first.
    """

    index: int
    impls: tuple[ImplGraph, ...]
    sync_before: bool = False


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """One way to realise a HintGraph: groups that run one after another in the same kernel."""

    index: int
    hint: HintGraph
    groups: tuple[Group, ...]
    rejected: tuple[Rejected, ...] = ()


def tiling_keys(results: tuple[ScheduleResult, ...]) -> tuple[tuple[ImplGraph, ...], ...]:
    """One template per group for every tiling key; the key is the index.

    The key is dense over (result, choice per group); the choice of the last group varies fastest.
    """
    return tuple(
        choice
        for result in results
        for choice in itertools.product(*(g.impls for g in result.groups))
    )
