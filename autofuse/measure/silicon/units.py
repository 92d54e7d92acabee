"""Units of the kit in order of risk: common operations come first, units that may hang a chip last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from autofuse.measure.calibration.cases import Case, calibration_cases
from autofuse.measure.silicon.graphs import Subject, subjects
from autofuse.targets import TargetSpec

__all__ = ["PARTS", "Unit", "all_units", "chosen", "find_unit"]

#: The two parts of the kit.
PARTS = ("conformance", "calibration")
#: Risks of compared kernels: ops, template families, edge-case elements, and kernels with a barrier of all cores.
_RISKS = {"op": 0, "template": 1, "corner": 2}
_MEETS = 3


@dataclass(frozen=True, slots=True)
class Unit:
    """One step of the kit on the chip.

    Attributes:
        name: unique; words with dots between them.
        part: one of :data:`PARTS`.
        group: consecutive units of a group share a process and a kernel.
        risk: 0 for common operations, higher for units that may hang.
        case: the case of a calibration kernel.
        subject: the subject of a compared kernel.
    """

    name: str
    part: str
    group: str
    risk: int
    case: Case | None = None
    subject: Subject | None = None


@lru_cache(maxsize=8)
def all_units(target: TargetSpec) -> tuple[Unit, ...]:
    """Return all units of a chip, from safe to risky.

    They may include ops that the target does not support, which is checked when they run.
    """
    units = (*_timed(target), *_compared())
    order = sorted(range(len(units)), key=lambda i: (units[i].risk, i))
    return tuple(units[i] for i in order)


def _timed(target: TargetSpec) -> Iterator[Unit]:
    for case in calibration_cases(target):
        yield Unit(case.name, "calibration", f"program {case.program}", case.risk, case=case)


def _compared() -> Iterator[Unit]:
    for s in subjects():
        risk = _MEETS if s.meets else _RISKS[s.kind]
        yield Unit(s.name, "conformance", s.name, risk, subject=s)


def find_unit(name: str, target: TargetSpec) -> Unit:
    """Return the unit called ``name``.

    Raises:
        KeyError: there is no such unit.
    """
    for unit in all_units(target):
        if unit.name == name:
            return unit
    raise KeyError(name)


def chosen(target: TargetSpec, only: str | None, words: Sequence[str]) -> tuple[Unit, ...]:
    """Return the units of one part or both whose names contain one of the words; no words: all."""
    return tuple(
        u
        for u in all_units(target)
        if only in (None, u.part) and (not words or any(w in u.name for w in words))
    )
