"""Runs the kit: a process with a time limit for every kernel, and recovery from a lost chip."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from autofuse.machines.twin.run.worker import Outcome, WorkerPool
from autofuse.measure.silicon.jobs import COMPILE, PROBE, RUN, unfinished_row
from autofuse.measure.silicon.journal import Journal
from autofuse.measure.silicon.units import Unit
from autofuse.targets import TargetSpec

__all__ = ["Kit", "Seen"]

#: Seconds to compile one kernel for the chip, and for a process to start and end besides its launches.
_COMPILE_S, _AROUND_S = 600.0, 120.0
#: Seconds to wait before probing a silent chip again, and for its answer.
_WAITS, _PROBE_S = (1.0, 5.0, 15.0, 30.0), 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """Outcome of a unit, for display.

    Attributes:
        unit: its name.
        states: states of its rows.
        text: the failure.
        seconds: wall-clock time.
    """

    unit: str
    states: tuple[str, ...]
    text: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Kit:
    """Runner of units.

    Attributes:
        target: the chip that kernels are generated for.
        device: the chip.
        limit: seconds of one launch.
        repeats: timed launches of a calibration kernel.
        seed: seed of random data.
        jobs: kernels compiled concurrently; 0: one per core, minus one.
        waits: successive waits in seconds for a chip that does not answer.
        around: seconds that a process may take besides its launches.
        names: of the worker jobs that run a unit, compile its kernel and probe the chip.
        named: name or path by which workers find the target; empty: its name.
    """

    target: TargetSpec
    device: str
    limit: float
    repeats: int
    seed: int
    jobs: int = 0
    waits: Sequence[float] = _WAITS
    around: float = _AROUND_S
    names: tuple[str, str, str] = (RUN, COMPILE, PROBE)
    named: str = ""

    def run(self, units: Sequence[Unit], journal: Journal, watch: Callable[[Seen], None]) -> bool:
        """Run the units without rows in the journal, in order.

        Args:
            units: from safe to risky.
            journal: already started; gets the rows.
            watch: called with the outcome of each unit.

        Returns:
            False if the chip was lost for good; the remaining units have no rows then.
        """
        for name in journal.hung:
            # It was running when the process or the machine went down.
            for unit in (u for u in units if u.name == name):
                journal.end(name, [unfinished_row(unit, self.target, "lost", "AF5012")])
        left = [u for u in units if u.name not in journal.rows]
        groups = [list(g) for _, g in itertools.groupby(left, key=lambda u: u.group)]
        with self._ahead(groups) as compiled:
            for group in groups:
                next(compiled, None)
                if not self._run_group(group, journal, watch):
                    return False
        return True

    @contextmanager
    def _ahead(self, groups: Sequence[Sequence[Unit]]) -> Iterator[Iterator[Outcome]]:
        """Compile the kernels of groups in parallel, some of them ahead of the chip."""
        items = ({"unit": g[0].name, "target": self.named or self.target.name} for g in groups)
        workers = self.jobs or max(1, (os.cpu_count() or 2) - 1)
        with WorkerPool(self.names[1], workers, timeout_s=_COMPILE_S, memory_mb=0) as pool:
            compiled = pool.map(items)
            try:
                yield compiled
            finally:
                pool.stop()
                if isinstance(compiled, Generator):
                    compiled.close()

    def _run_group(
        self, group: Sequence[Unit], journal: Journal, watch: Callable[[Seen], None]
    ) -> bool:
        """Run the units of one kernel in their own process; return False if the chip was lost for good."""
        if not group:
            return True
        most = 2 * self.limit + self.around
        # The runtime reserves more address space than any memory limit allows.
        with WorkerPool(
            self.names[0], 1, timeout_s=most, memory_mb=0, jobs_per_worker=1 << 30
        ) as pool:
            left = list(group)
            while left:
                unit = left.pop(0)
                journal.begin(unit.name)
                try:
                    rows, text, seconds = self._run_unit(pool, unit, most)
                except BaseException:
                    journal.leave(unit.name)
                    raise
                journal.end(unit.name, rows)
                states = tuple(r["state"] for r in rows)
                watch(Seen(unit.name, states, text, seconds))
                if {"timeout", "lost"} & set(states):
                    break
            else:
                return True
        # Its process has ended by now, and with it the kernel that hung on the chip.
        return self._answers() and self._run_group(left, journal, watch)

    def _run_unit(
        self, pool: WorkerPool, unit: Unit, most: float
    ) -> tuple[list[dict[str, Any]], str, float]:
        outcome = pool.run(
            {
                "unit": unit.name,
                "target": self.named or self.target.name,
                "device": self.device,
                "limit": self.limit,
                "seed": self.seed,
                "repeats": self.repeats,
            }
        )
        if outcome.ok:
            return outcome.value["rows"], outcome.value["text"], outcome.seconds
        # The process is gone with its state.
        found = outcome.diagnostics[0]
        state = "timeout" if outcome.seconds >= most else "failed"
        row = unfinished_row(unit, self.target, state, found.code)
        return [row], str(found), outcome.seconds

    def _answers(self) -> bool:
        """Return True if the chip answers a new process, now or after some waiting."""
        for seconds in (0.0, *self.waits):
            time.sleep(seconds)
            with WorkerPool(self.names[2], 1, timeout_s=_PROBE_S, memory_mb=0) as pool:
                if pool.run({"device": self.device}).ok:
                    return True
        return False
