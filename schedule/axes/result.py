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
    """A template that was tried and dropped, with the reason.

    Attributes:
        group: index of the template's group.
        template: its name.
        reason: text for users, with the model's figures.
        code: the diagnostic to report if no other template fits either.
        details: further details, such as the bytes of every buffer.
        title: display name among the templates of the group; empty for ``template``.
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
    """Outcome of a tried template, for watchers of the build.

    Attributes:
        cycles: modelled cycles at typical sizes, infinite if illegal there; None if it could not be made.
        reason: reason for dropping it; empty if kept.
    """

    template: str
    cycles: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes with one iteration space; ``impls`` are the templates to choose from at run time, best first.

    ``sync_before``: all cores synchronise first, because the group reads or overwrites memory of an earlier group.
    """

    index: int
    impls: tuple[ImplGraph, ...]
    sync_before: bool = False


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """One implementation of a HintGraph: groups that run one after another in the same kernel."""

    index: int
    hint: HintGraph
    groups: tuple[Group, ...]
    rejected: tuple[Rejected, ...] = ()


def tiling_keys(results: tuple[ScheduleResult, ...]) -> tuple[tuple[ImplGraph, ...], ...]:
    """Return one template per group for every tiling key; the key is the index.

    The key is dense over (result, choice per group); the choice of the last group varies fastest.
    """
    return tuple(
        choice
        for result in results
        for choice in itertools.product(*(g.impls for g in result.groups))
    )
