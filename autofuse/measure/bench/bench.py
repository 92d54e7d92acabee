"""Measures kernels at sizes on devices: rows for display and JSON, and records for files of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autofuse import __version__
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.base.edits import blamed
from autofuse.base.visible import visible
from autofuse.codegen.backends.ascendc.tuning import Tilings
from autofuse.codegen.backends.triton.tuning import Tuning
from autofuse.machines.timing import Plan
from autofuse.machines.twin.run.worker import Outcome
from autofuse.measure.bench.cluster import checked_finding, on_cluster
from autofuse.measure.bench.devices import BenchDevice
from autofuse.measure.bench.job import JOB
from autofuse.measure.bench.pools import on_devices
from autofuse.measure.bench.results import Measurement, Part
from autofuse.measure.bench.subjects import Choice, Subject, chosen

__all__ = ["LAUNCH_S", "Case", "Row", "bench"]

#: Time limit of one launch on a chip, in seconds.
LAUNCH_S = 60.0
#: Findings that mean a wrong kernel.
_WRONG = frozenset(("AF6001", "AF6002"))
#: Most findings shown with a measurement.
_MOST_NOTES = 8


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel at one set of sizes.

    Attributes:
        subject: the kernel.
        sizes: by symbol.
    """

    subject: Subject
    sizes: Mapping[str, int]

    @property
    def called(self) -> dict[str, int]:
        """The sizes by the user's names."""
        return {s.label: self.sizes[s.name] for s in self.subject.graph.symbols}


@dataclass(frozen=True, slots=True)
class Row:
    """Outcome of a case.

    Attributes:
        case: the case.
        state: ``measured``, ``wrong`` (an output differs from NumPy) or ``failed``.
        device: the device that ran it.
        record: the measurement, if any.
        choice: the choice of the model.
        diagnostics: reasons why there is no measurement, or problems that did not prevent it.
    """

    case: Case
    state: str
    device: str
    record: Measurement | None
    choice: Choice
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def stands_in(self) -> bool:
        """True if a card ran a kernel generated for a chip: the time is not one of that chip."""
        r = self.record
        return r is not None and r.device.kind == "cuda" and not self.case.subject.is_triton

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON, with the record."""
        r = self.record
        us = None if r is None else r.median_us
        model = self.choice.us
        return {
            "graph": self.case.subject.path,
            "name": self.case.subject.graph.label,
            "edited": self.case.subject.edited,
            "sizes": self.case.called,
            "state": self.state,
            "device": self.device or None,
            "measured_us": us,
            "least_us": None if r is None else min(r.times_us),
            "most_us": None if r is None else max(r.times_us),
            "spread_us": None if r is None else r.spread_us,
            "samples": 0 if r is None else len(r.times_us),
            "modelled_us": model,
            # The model describes the chip.
            "modelled_over_measured": None
            if us is None or model is None or self.stands_in
            else model / us,
            "stands_in": self.stands_in,
            "record": None if r is None else r.model_dump(),
            "diagnostics": [d.to_json() for d in self.diagnostics],
        }


def bench(
    cases: Sequence[Case],
    devices: Sequence[BenchDevice],
    plan: Plan,
    *,
    timeout_s: float,
    tuning: Tuning | Tilings | None = None,
    scheduler: str | None = None,
    tick: Callable[[], object] = lambda: None,
) -> list[Row]:
    """Measure cases, one at a time on each device.

    Args:
        cases: the cases to measure.
        devices: devices of this host; with a scheduler, of each of its hosts.
        plan: the timing plan.
        timeout_s: seconds for a case, including compilation and NumPy.
        tuning: tilings or blocks that the kernels were built with, for the model.
        scheduler: address of a Dask scheduler, whose workers measure.
        tick: called for each finished case.

    Returns:
        A row per case, in order.

    Raises:
        AutofuseError: AF5001, AF5007, the scheduler cannot be used.
    """
    texts: dict[int, str] = {}
    items = []
    for case in cases:
        own = texts.setdefault(id(case.subject), case.subject.text())
        items.append(
            {
                "version": __version__,
                "text": own,
                "kernel": case.subject.facts(),
                "sizes": dict(case.sizes),
                "plan": asdict(plan),
                "timeout_s": LAUNCH_S,
            }
        )
    rows: dict[int, Row] = {}
    for i, outcome in _outcomes(items, devices, timeout_s, scheduler):
        choice = chosen(cases[i].subject.built, cases[i].sizes, tuning)
        rows[i] = _row(cases[i], outcome, choice)
        tick()
    return [rows[i] for i in range(len(cases))]


def _outcomes(
    items: Sequence[dict[str, Any]],
    devices: Sequence[BenchDevice],
    timeout_s: float,
    scheduler: str | None,
) -> Iterator[tuple[int, Outcome]]:
    if scheduler is None:
        return on_devices(JOB, items, devices, timeout_s=timeout_s)
    # Every host of the scheduler has these devices.
    named = [{**item, "device": str(devices[i % len(devices)])} for i, item in enumerate(items)]
    return on_cluster(scheduler, JOB, named, timeout_s=timeout_s, memory_mb=0)


def _row(case: Case, outcome: Outcome, choice: Choice) -> Row:
    device = str(outcome.item.get("device", ""))
    if not outcome.ok:
        wrong = any(d.code in _WRONG for d in outcome.diagnostics)
        found = _told(outcome.diagnostics, case.subject)
        return Row(case, "wrong" if wrong else "failed", device, None, choice, found)
    try:
        record = _completed(outcome.value["record"], case, choice)
        notes = tuple(checked_finding(d) for d in outcome.value["notes"][:_MOST_NOTES])
    except (ValueError, TypeError, KeyError, AttributeError) as e:
        text = f"the worker returned no valid measurement for {case.subject.graph.label}"
        why = visible(str(e).splitlines()[0] if str(e) else type(e).__name__)[:200]
        finding = Diagnostic("AF1403", text, notes=(why,))
        return Row(case, "failed", device, None, choice, (finding,))
    return Row(case, "measured", device, record, choice, notes)


def _completed(value: Any, case: Case, choice: Choice) -> Measurement:
    """Return the record of an answer, completed with the model's choice and the request of the case."""
    found = Measurement.model_validate(value)
    parts: Iterable[Part] = choice.parts
    if case.subject.edited or (choice.key is not None and choice.key != found.key):
        # The model chose differently, or knows another kernel, so its tiles are not those that ran.
        parts = ()
    return Measurement.model_validate(
        {
            **found.model_dump(),
            "origin": "bench",
            "kernel": case.subject.facts(),
            "sizes": case.called,
            "modelled_us": choice.us,
            "parts": [p.model_dump() for p in parts],
        }
    )


def _told(found: Sequence[Diagnostic], subject: Subject) -> tuple[Diagnostic, ...]:
    """Return the findings about a kernel; in an edited one, code that does not compile is blamed on the edit."""
    try:
        with blamed(Path(subject.path) if subject.edited else None):
            raise AutofuseError(found)
    except AutofuseError as e:
        return e.diagnostics
