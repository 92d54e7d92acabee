"""Contest for a candidate that beats the default by more than the noise of the measurement.

A candidate is timed in the same rounds as the default and judged by their ratio in each round, so that clock changes
and heat affect both. The best candidate is timed against the default once more, in separate rounds, with a second copy
of the default: the ratio of the two copies of one kernel is the noise. The first contest picks and the second one
judges, since the best of many is partly the luckiest.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias

from autofuse.base.diagnostics import AutofuseError
from autofuse.measure.tuning.store import Record, Store

__all__ = [
    "LEAST_GAIN",
    "Candidate",
    "Clock",
    "Contest",
    "Runner",
    "Samples",
    "Tell",
    "Verdict",
    "ratio_of",
]

Sizes: TypeAlias = Mapping[str, int]
#: Called with the current activity, in words.
Tell: TypeAlias = Callable[[str], None]

#: Smallest gain that counts, however small the noise is.
LEAST_GAIN = 0.01
#: Ratio of standard deviation to median absolute deviation of a normal distribution; number of standard errors of the
#: median (a quarter more than the mean's) that a gain must exceed.
_SIGMA, _ERRORS, _OF_MEDIAN = 1.4826, 3.0, 1.2533
#: Candidates timed together with the default.
BATCH = 6


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate for measurement.

    Attributes:
        key: a text that describes the whole choice; the store uses it as a key.
        label: description for display.
        payload: the input of a runner.
        modelled_us: modelled time at each shape.
    """

    key: str
    label: str
    payload: Any = field(compare=False)
    modelled_us: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Samples:
    """Times of a candidate.

    Attributes:
        us: microseconds per round; empty if there is no time.
        why: reason why there is none.
    """

    us: tuple[float, ...] = ()
    why: str = ""


class Runner(Protocol):
    """A device, or a model of one."""

    @property
    def measures(self) -> bool:
        """True if times are measured; else they are predicted, and equal in every round."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Facts of the device; runners with equal facts give comparable times."""

    def run(self, candidates: Sequence[Candidate], sizes: Sizes, rounds: int) -> list[Samples]:
        """Check candidates against NumPy, and time the correct ones in turns.

        Raises:
            AutofuseError: the device is lost or missing; errors of a candidate are in its samples.
        """


class Clock:
    """A budget of seconds; None: no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def over(self) -> bool:
        """True if the time is spent."""
        return time.monotonic() >= self._end


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a contest.

    Attributes:
        winner: None: the default stays.
        best: the winner, or the candidate closest to winning; None: no candidate has a time.
        us: median microseconds of ``best`` at each shape.
        default_us: the default's in the same rounds.
        gain: share of the default's time that the best one saves, geometric mean over shapes.
        noise: the gain that two copies of one kernel may show.
        measured: number of candidates with times.
        failed: labels of candidates without times -> reason.
        complete: False if the budget ran out before all candidates were tried.
    """

    winner: Candidate | None
    best: Candidate | None
    us: tuple[float, ...]
    default_us: tuple[float, ...]
    gain: float
    noise: float
    measured: int
    failed: Mapping[str, str]
    complete: bool


class Contest:
    """Candidates of one graph, for one or more shapes, on devices of one kind.

    Args:
        runners: a device each.
        default: the compiler's choice.
        shapes: sizes of the symbols; a candidate is judged by all of them together.
        clock: when to stop.
        store: earlier measurements.
        context: separates records of other graphs, devices and versions in the store.
        rounds: samples of each candidate.
        tell: called with progress messages.
    """

    def __init__(
        self,
        runners: Sequence[Runner],
        default: Candidate,
        shapes: Sequence[Sizes],
        *,
        clock: Clock,
        store: Store,
        context: str,
        rounds: int,
        tell: Tell = lambda _: None,
    ) -> None:
        self.runners, self.default, self.shapes = runners, default, tuple(shapes)
        self.clock, self.store, self.context, self.rounds, self.tell = (
            clock,
            store,
            context,
            rounds,
            tell,
        )
        self.failed: dict[str, str] = {}
        self.ratios: dict[str, float] = {}
        self.candidates: dict[str, Candidate] = {}
        self.complete = True

    @property
    def best(self) -> Candidate:
        """The best so far, or the default if none is better."""
        found = min(self.ratios, key=lambda k: self.ratios[k], default=None)
        if found is None or self.ratios[found] >= 1:
            return self.default
        return self.candidates[found]

    def screen(self, candidates: Sequence[Candidate]) -> None:
        """Measure the remaining candidates beside the default.

        Raises:
            AutofuseError: AF5003 the default itself is wrong or fails; any error of a device.
        """
        fresh = [c for c in dict.fromkeys(candidates) if c.key not in self.candidates]
        fresh = [c for c in fresh if c.key != self.default.key]
        self.candidates |= {c.key: c for c in fresh}
        todo = [c for c in fresh if not self._remembered(c)]
        batches = [todo[i : i + BATCH] for i in range(0, len(todo), BATCH)]
        free: SimpleQueue[Runner] = SimpleQueue()
        for r in self.runners:
            free.put(r)

        def one(batch: Sequence[Candidate]) -> None:
            if self.clock.over:
                self.complete = False
                return
            runner = free.get()
            try:
                self._batch(runner, batch)
            finally:
                free.put(runner)

        with ThreadPoolExecutor(len(self.runners)) as pool:
            jobs = [pool.submit(one, b) for b in batches]
            try:
                for done in jobs:
                    done.result()
            except BaseException:
                # The other threads see that the time is over.
                self.clock = Clock(0)
                raise

    def judge(self) -> Verdict:
        """Judge the best candidate against the default, in separate rounds.

        Raises:
            AutofuseError: as :meth:`screen`.
        """
        found = min(self.ratios, key=lambda k: self.ratios[k], default=None)
        if found is None:
            return self._verdict(None, (), (), 0.0, 0.0, wins=False)
        best = self.candidates[found]
        self.tell(f"{best.label}: again, next to the default")
        us, default_us, logs, noises = [], [], [], []
        for sizes in self.shapes:
            a, b, again = self._times(self.runners[0], [self.default, best, self.default], sizes)
            us.append(statistics.median(b.us))
            default_us.append(statistics.median(a.us))
            both = [(x + y) / 2 for x, y in zip(a.us, again.us, strict=True)]
            logs.append(math.log(ratio_of(b.us, both)))
            noises.append(_noise(b.us, a.us, again.us))
        gain = 1 - math.exp(statistics.fmean(logs))
        noise = max(LEAST_GAIN, math.sqrt(statistics.fmean(n * n for n in noises)))
        return self._verdict(best, us, default_us, gain, noise, wins=gain > noise)

    def _verdict(
        self,
        best: Candidate | None,
        us: Sequence[float],
        default_us: Sequence[float],
        gain: float,
        noise: float,
        *,
        wins: bool,
    ) -> Verdict:
        return Verdict(
            best if wins else None,
            best,
            tuple(us),
            tuple(default_us),
            gain,
            noise,
            len(self.ratios),
            dict(self.failed),
            self.complete,
        )

    def _remembered(self, c: Candidate) -> bool:
        """Take the ratio or the failure of a candidate from the store; return True if the store has either."""
        found = [self.store.find(self.context, s, c.key) for s in self.shapes]
        known = [r for r in found if r is not None]
        bad = next((r.why for r in known if r.why), "")
        if bad:
            self.failed[c.label] = bad
        elif len(known) == len(self.shapes):
            self.ratios[c.key] = math.exp(statistics.fmean(math.log(r.ratio) for r in known))
        else:
            return False
        return True

    def _batch(self, runner: Runner, batch: Sequence[Candidate]) -> None:
        logs: dict[str, list[float]] = {c.key: [] for c in batch}
        left = list(batch)
        for sizes in self.shapes:
            if not left:
                return
            self.tell(
                f"{len(self.ratios) + len(self.failed)} done; {', '.join(c.label for c in left)}"
            )
            default, *found = self._times(runner, [self.default, *left], sizes)
            for c, s in zip(tuple(left), found, strict=True):
                us = statistics.median(s.us) if s.us else 0.0
                ratio = ratio_of(s.us, default.us) if s.us else 0.0
                record = Record(
                    self.context,
                    dict(sizes),
                    c.key,
                    us,
                    statistics.median(default.us),
                    ratio,
                    s.why,
                )
                self.store.add(record)
                if s.why:
                    self.failed[c.label] = s.why
                    left.remove(c)
                else:
                    logs[c.key].append(math.log(ratio))
        self.ratios |= {c.key: math.exp(statistics.fmean(logs[c.key])) for c in left}

    def _times(
        self, runner: Runner, candidates: Sequence[Candidate], sizes: Sizes
    ) -> list[Samples]:
        found = runner.run(candidates, sizes, self.rounds)
        if not found[0].us:
            text = f"the compiler's choice has no time at {dict(sizes)}: {found[0].why}"
            raise AutofuseError.of("AF5003", text, hint="run autofuse verify for details")
        return found


def ratio_of(us: Sequence[float], beside: Sequence[float]) -> float:
    """Return the median over rounds of one time over the other."""
    return statistics.median(a / b for a, b in zip(us, beside, strict=True))


def _noise(us: Sequence[float], default: Sequence[float], again: Sequence[float]) -> float:
    """Return the error of a ratio: the difference of two copies, or the scatter of single rounds if larger."""
    ratios = [b / a for a, b in zip(default, us, strict=True)]
    middle = statistics.median(ratios)
    scatter = _SIGMA * statistics.median(abs(r - middle) for r in ratios)
    error = _ERRORS * _OF_MEDIAN * scatter / math.sqrt(len(ratios))
    return max(abs(ratio_of(again, default) - 1), error)
