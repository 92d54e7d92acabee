"""Devices that measure candidates, in a worker process of this host or on the workers of a Dask scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.visible import visible
from autofuse.base.wording import counted
from autofuse.machines.twin.run.worker import Outcome, WorkerPool
from autofuse.measure.bench.cluster import on_cluster
from autofuse.measure.tuning.contest import Candidate, Samples, Sizes

__all__ = ["DeviceRunner", "Work", "here", "on_scheduler"]

#: Runs a job on an item.
Send: TypeAlias = Callable[[Mapping[str, Any]], Outcome]

#: Most characters kept of a worker's text, and most facts.
_LONGEST, _MOST_FACTS = 300, 40
#: Codes of errors that do not depend on the candidates.
_MISSING = frozenset(("AF1403", "AF5001", "AF5007", "AF5009", "AF5011", "AF5013"))


class Work(Protocol):
    """Jobs for workers of one kind."""

    @property
    def job(self) -> str:
        """The job, as for :class:`~autofuse.machines.twin.run.worker.WorkerPool`."""

    def item(
        self, device: str, candidates: Sequence[Candidate], sizes: Sizes, rounds: int
    ) -> dict[str, Any]:
        """Return the item of a job, ready for JSON."""


class DeviceRunner:
    """A device driven by a worker, which a broken kernel may end.

    Args:
        work: the jobs of the worker.
        device: such as ``cuda:0``; ``cpu`` for the twin.
        send: runs the jobs.
        measures: True if times are measured, False if modelled.
        close: releases the resources of ``send``.

    Attributes:
        facts: facts that the device reports.

    Raises:
        AutofuseError: the device is missing, or cannot be used.
    """

    def __init__(
        self,
        work: Work,
        device: str,
        send: Send,
        *,
        measures: bool = True,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.work, self.device, self.measures, self.close = work, device, measures, close
        self._send = send
        self.facts: Mapping[str, str] = {}

    def meet(self, default: Candidate, sizes: Sizes) -> None:
        """Find out the facts of the device by running the first candidate, untimed.

        Raises:
            AutofuseError: as the class.
        """
        outcome = self._send(self.work.item(self.device, [default], sizes, 0))
        if not outcome.ok:
            raise AutofuseError(outcome.diagnostics)
        self.facts = _facts(outcome.value)

    def run(self, candidates: Sequence[Candidate], sizes: Sizes, rounds: int) -> list[Samples]:
        """Run as :meth:`~autofuse.measure.tuning.contest.Runner.run`."""
        outcome = self._send(self.work.item(self.device, candidates, sizes, rounds))
        if outcome.ok:
            here = _facts(outcome.value).get("device", "")
            if here != self.facts.get("device", ""):
                text = f"the workers have different devices: {here}, {self.facts.get('device', '')}"
                raise AutofuseError.of("AF5007", text, hint="tune each kind separately")
            return _samples(outcome.value, len(candidates), rounds)
        missing = any(d.code in _MISSING for d in outcome.diagnostics)
        if missing or len(candidates) == 1:
            raise AutofuseError(outcome.diagnostics)
        if len(candidates) == 2:
            # The next runs show whether the first of them fails alone.
            alone = self.run(candidates[:1], sizes, rounds)
            return [*alone, Samples(why=outcome.diagnostics[0].message)]
        # One of them ended the worker; running each beside the first shows which.
        return _joined([self.run((candidates[0], c), sizes, rounds) for c in candidates[1:]])


def here(
    work: Work,
    device: str,
    *,
    timeout_s: float,
    measures: bool = True,
    memory_mb: int | None = 0,
) -> DeviceRunner:
    """Return a device of this host.

    Args:
        work: the jobs of its worker.
        device: such as ``npu:0``.
        timeout_s: seconds for one job, including compilation and NumPy.
        measures: times are measured.
        memory_mb: as for a pool; the driver of a device reserves more address space than there is memory.
    """
    pool = WorkerPool(work.job, workers=1, timeout_s=timeout_s, memory_mb=memory_mb)
    return DeviceRunner(work, device, pool.run, measures=measures, close=pool.close)


def on_scheduler(work: Work, device: str, address: str, timeout_s: float) -> DeviceRunner:
    """Return one device of each host of a scheduler: any of its workers takes the next job.

    Args:
        work: the jobs of the workers.
        device: such as ``npu:0``, on their hosts.
        address: address of the scheduler.
        timeout_s: seconds for one job.
    """

    def send(item: Mapping[str, Any]) -> Outcome:
        found = on_cluster(address, work.job, [item], timeout_s=timeout_s, memory_mb=0)
        return next(iter(found))[1]

    return DeviceRunner(work, device, send)


def _joined(pairs: Sequence[Sequence[Samples]]) -> list[Samples]:
    """Join samples that were taken in pairs, scaled to the first pair."""
    first = pairs[0][0]
    found = [first]
    for base, one in pairs:
        scaled = [u * f / b for u, f, b in zip(one.us, first.us, base.us, strict=False)]
        found.append(Samples(tuple(scaled), one.why))
    return found


def _facts(value: Any) -> dict[str, str]:
    """Return the facts of a worker's device, checked."""
    try:
        items = list(value["facts"].items())[:_MOST_FACTS]
        if not all(isinstance(x, str) for pair in items for x in pair):
            raise TypeError("a fact is not text")
        return {visible(k)[:_LONGEST]: visible(v)[:_LONGEST] for k, v in items}
    except (KeyError, TypeError, AttributeError) as e:
        raise _not_ours(e) from e


def _samples(value: Any, count: int, rounds: int) -> list[Samples]:
    """Return a worker's samples of the candidates, checked."""
    try:
        rows = value["found"]
        if len(rows) != count:
            raise ValueError(f"{len(rows)} answers for {counted(count, 'candidate')}")
        return [_one(row, rounds) for row in rows]
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise _not_ours(e) from e


def _one(row: Mapping[str, Any], rounds: int) -> Samples:
    why = row.get("why", "")
    if not isinstance(why, str):
        raise TypeError("a reason is not text")
    if why:
        return Samples(why=visible(why)[:_LONGEST])
    us = tuple(float(x) for x in row["us"])
    if len(us) != rounds or not all(0 < x < 1e12 for x in us):
        raise ValueError(
            f"{counted(len(us), 'time')} for {counted(rounds, 'round')}, or an invalid one"
        )
    return Samples(us)


def _not_ours(e: Exception) -> AutofuseError:
    text = f"a worker returned no valid measurement: {visible(str(e))[:_LONGEST]}"
    hint = "workers of a scheduler must have the same version of autofuse"
    return AutofuseError.of("AF1403", text, hint=hint)
