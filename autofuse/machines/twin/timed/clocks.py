"""Simulates the pipes of a core: a stream of instructions, flags and barriers.

A core has four pipes. The scalar unit handles everything in program order and issues instructions to the other three,
each of which executes in order. Flags order the pipes. A core has a share of the GM bandwidth; a concurrent load and
store divide it, so that neither gets more than it asks for, nor less than half unless it asks for less. Write-backs
from L2 use the rest, until more are pending than two stores have caused; then they get a part as well. The costs of
steps are inputs (``twin.timed.pricing``): this module has no figures of a chip.

Times are cycles of the model, never measurements.  Equal streams give equal times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

__all__ = [
    "CAUSES",
    "PIPES",
    "Cause",
    "Kind",
    "Pipe",
    "Played",
    "Step",
    "StuckError",
    "critical_path",
    "play",
]


class Pipe(IntEnum):
    """The pipes of a core, numbered as in ``runtime/src/checks/checked.h``."""

    SCALAR = 0
    V = 1
    MTE2 = 2
    MTE3 = 3


#: Names of the pipes in outputs.
PIPES = {Pipe.SCALAR: "scalar", Pipe.V: "V", Pipe.MTE2: "MTE2", Pipe.MTE3: "MTE3"}


class Kind(IntEnum):
    """Kind of a step, numbered as in ``autofuse_twin_event``."""

    ISSUE = 0
    SET = 1
    WAIT = 2
    BARRIER = 3
    BARRIER_ALL = 4
    SYNC = 5
    #: An operation of the preceding register function, whose cost covers all its operations.
    PART = 6


class Cause(IntEnum):
    """Cause of a stall; the first three are numbered as in ``autofuse_twin_event``."""

    SLOT = 0
    DATA = 1
    FLAG = 2
    BARRIER = 3
    GM = 4
    SCALAR = 5
    CORES = 6


#: Names of the causes in outputs.
CAUSES = {
    Cause.SLOT: "queue slot",
    Cause.DATA: "data",
    Cause.FLAG: "flag",
    Cause.BARRIER: "barrier",
    Cause.GM: "GM bandwidth",
    Cause.SCALAR: "scalar unit",
    Cause.CORES: "other cores",
}


@dataclass(slots=True)
class Step:
    """One entry of a stream; cycles of the model.

    Attributes:
        kind: the kind of step.
        pipe: its pipe; for SYNC and BARRIER_ALL the scalar unit.
        flag: the flag of SET and WAIT.
        cause: the cause of WAIT.
        cycles: cycles for which an instruction occupies its pipe.
        lead: the part of ``cycles`` before it accesses GM.
        hold: cycles of the core's share of GM for its bytes; 0 if it moves nothing.
        later: cycles of GM for the later write-back from L2.
        latency: cycles from when the pipe is free until the result is available.
        before: cycles of the scalar unit before this step.
    """

    kind: Kind
    pipe: Pipe
    flag: int = 0
    cause: Cause = Cause.FLAG
    cycles: float = 0.0
    lead: float = 0.0
    hold: float = 0.0
    later: float = 0.0
    latency: float = 0.0
    before: float = 0.0


@dataclass
class Played:
    """Times of the instructions of a core.

    Attributes:
        start, end: by step; -1 for steps that are not instructions.
        stalls: by step: (cause, cycles) of its pipe before it, in order.
        binding: by step: the last instruction that it waited for, or -1.
        finish: time of completion.
        busy: cycles by pipe.
        gm_busy: cycles of the share of GM for all bytes.
        stall: cycles by pipe and cause.
    """

    start: list[float]
    end: list[float]
    stalls: dict[int, tuple[tuple[Cause, float], ...]] = field(default_factory=dict)
    binding: list[int] = field(default_factory=list)
    finish: float = 0.0
    busy: dict[Pipe, float] = field(default_factory=lambda: dict.fromkeys(Pipe, 0.0))
    gm_busy: float = 0.0
    stall: dict[Pipe, dict[Cause, float]] = field(default_factory=lambda: {p: {} for p in Pipe})


class StuckError(ValueError):
    """A deadlock: a pipe waits for a flag that nothing sets, or not all cores reach a barrier."""


def play(
    streams: Sequence[Sequence[Step]], *, gap: float = 0.0, sync: float = 0.0
) -> tuple[Played, ...]:
    """Simulate the streams of some cores of one kernel.

    Args:
        streams: the stream of each core.
        gap: cycles between two instructions of the vector unit with a barrier in between.
        sync: cycles from the last core's arrival at a barrier of all cores until they continue.

    Raises:
        StuckError: a stream never ends.
    """
    cores = [_Core(s, gap) for s in streams]
    while True:
        for c in cores:
            c.run()
        waiting = [c.waits_for_cores for c in cores]
        if not any(waiting):
            return tuple(c.finished() for c in cores)
        if not all(waiting):
            raise StuckError("not every core reaches the barrier of all cores")
        at = max(c.now for c in cores) + sync
        for c in cores:
            c.release(at)


#: A time, the cause of waiting until then, and the deciding instruction.
_Until = tuple[float, Cause, int]


class _Core:
    """One core; see :func:`play`."""

    def __init__(self, steps: Sequence[Step], gap: float) -> None:
        self.steps, self.gap = steps, gap
        self.played = Played([-1.0] * len(steps), [-1.0] * len(steps), binding=[-1] * len(steps))
        self.at = 0
        self.now = 0.0
        #: Last cause that stalled the scalar unit.
        self.held: tuple[Cause, int] = (Cause.SCALAR, -1)
        self.queue: dict[Pipe, deque[int]] = {p: deque() for p in Pipe}
        self.issued: dict[int, tuple[float, Cause, int]] = {}
        self.free = dict.fromkeys(Pipe, 0.0)
        #: Completion time of everything issued to a pipe so far, and its last instruction.
        self.done: dict[Pipe, tuple[float, int]] = dict.fromkeys(Pipe, (0.0, -1))
        self.until: dict[Pipe, _Until] = dict.fromkeys(Pipe, (0.0, Cause.FLAG, -1))
        self.barrier = dict.fromkeys(Pipe, False)
        self.flags: dict[int, tuple[float, int]] = {}
        #: Time up to which transfers have been simulated, and transfers in flight.
        self.gm_now = 0.0
        #: Pending write-backs of L2, in cycles of the share of GM, and how much of them may wait.
        self.behind = self.patience = 0.0
        self.moving: dict[Pipe, _Transfer] = {}
        self.waits_for_cores = False

    def run(self) -> None:
        """Run until the end, or a barrier of all cores."""
        if self.waits_for_cores:
            return
        while True:
            moved = self._scalar()
            for pipe in (Pipe.V, Pipe.MTE2, Pipe.MTE3):
                moved |= self._advance(pipe)
            if not moved and not self._transfer():
                break
        left = any(self.queue.values())
        at_barrier = (
            not left and self.at < len(self.steps) and self.steps[self.at].kind is Kind.SYNC
        )
        if at_barrier:
            self.waits_for_cores = True
        elif left or self.at < len(self.steps):
            raise StuckError(
                f"step {self.at} of {len(self.steps)} waits for a flag that is never set"
            )

    def release(self, at: float) -> None:
        """Continue after a barrier of all cores."""
        last = self.done[Pipe.SCALAR][1]
        self.now = at
        self.held = (Cause.CORES, last)
        self.waits_for_cores = False
        self.at += 1

    def finished(self) -> Played:
        """Return the result."""
        ends = [t for t, _ in self.done.values()]
        self.played.finish = max(*ends, self.now, self.gm_now + self.behind)
        return self.played

    # the scalar unit ---------------------------------------------------------------------------
    def _scalar(self) -> bool:
        moved = False
        while self.at < len(self.steps):
            step = self.steps[self.at]
            if step.kind is Kind.SYNC:
                break
            if step.kind is Kind.BARRIER_ALL:
                if self.moving or any(self.queue.values()):
                    break
                latest, last = max(self.done.values())
                cause = Cause.CORES if step.before else Cause.BARRIER
                self._hold(latest + step.before, cause, last)
            elif step.kind is Kind.WAIT and step.pipe is Pipe.SCALAR:
                if step.flag not in self.flags:
                    break
                when, last = self.flags[step.flag]
                self._hold(when, step.cause, last)
            else:
                self._pass(self.at, step)
            self.at += 1
            moved = True
        return moved

    def _hold(self, until: float, cause: Cause, by: int) -> None:
        """Stall the scalar unit until a given time."""
        if until > self.now:
            of = self.played.stall[Pipe.SCALAR]
            of[cause] = of.get(cause, 0.0) + until - self.now
            self.now = until
            self.held = (cause, by)

    def _pass(self, i: int, step: Step) -> None:
        if step.kind is Kind.PART:
            return
        if step.before:
            self.now += step.before
            self.played.busy[Pipe.SCALAR] += step.before
            self.held = (Cause.SCALAR, self.held[1])
        if step.pipe is not Pipe.SCALAR:
            self.issued[i] = (self.now, *self.held)
            self.queue[step.pipe].append(i)
        elif step.kind is Kind.ISSUE:
            self.played.start[i] = self.now
            self.now += step.cycles
            self.played.end[i] = self.now
            self.played.binding[i] = self.held[1]
            self.played.busy[Pipe.SCALAR] += step.cycles
            self.done[Pipe.SCALAR] = (self.now, i)
            self.held = (Cause.SCALAR, i)
        elif step.kind is Kind.SET:
            self.flags[step.flag] = (self.now, self.done[Pipe.SCALAR][1])

    # the other pipes ---------------------------------------------------------------------------
    def _advance(self, pipe: Pipe) -> bool:
        """Run the steps of a pipe that do not access GM; return True if there were any."""
        moved = False
        queue = self.queue[pipe]
        while queue and pipe not in self.moving:
            i = queue[0]
            step = self.steps[i]
            if step.kind is Kind.ISSUE:
                if pipe is not Pipe.V:
                    break
                queue.popleft()
                now = self._begin(pipe, i)
                self._end(pipe, i, now, now + step.cycles)
            elif step.kind is Kind.WAIT:
                if step.flag not in self.flags:
                    break
                queue.popleft()
                when, by = self.flags[step.flag]
                if when > self.until[pipe][0]:
                    self.until[pipe] = (when, step.cause, by)
            else:
                queue.popleft()
                if step.kind is Kind.SET:
                    # A pipe that waits without doing anything passes its wait on.
                    waited, _, whom = self.until[pipe]
                    when, by = max(self.done[pipe], (waited, whom))
                    self.flags[step.flag] = (max(when, self.issued[i][0]), by)
                elif self.done[pipe][1] >= 0:
                    self.barrier[pipe] = True
            moved = True
        return moved

    def _begin(self, pipe: Pipe, i: int) -> float:
        """Return the start of a pipe's next instruction, and what it waited for."""
        now, by = self.free[pipe], self.done[pipe][1]
        waits: list[_Until] = []
        if self.barrier[pipe]:
            self.barrier[pipe] = False
            end, last = self.done[pipe]
            waits.append((end + (self.gap if pipe is Pipe.V else 0.0), Cause.BARRIER, last))
        waits += [self.until[pipe], self.issued[i]]
        stalls: list[tuple[Cause, float]] = []
        for when, cause, of in waits:
            if when > now:
                stalls.append((cause, when - now))
                now, by = when, of
        self.played.start[i], self.played.binding[i] = now, by
        self._stall(pipe, i, stalls)
        return now

    def _end(self, pipe: Pipe, i: int, begin: float, end: float) -> None:
        step, played = self.steps[i], self.played
        self.free[pipe] = end
        if end + step.latency >= self.done[pipe][0]:
            self.done[pipe] = (end + step.latency, i)
        played.end[i] = end
        played.busy[pipe] += step.cycles
        played.gm_busy += step.hold + step.later
        longer = end - begin - step.cycles
        if longer > _TINY * (1.0 + step.cycles):
            self._stall(pipe, i, [(Cause.GM, longer)])

    def _stall(self, pipe: Pipe, i: int, stalls: list[tuple[Cause, float]]) -> None:
        if stalls:
            self.played.stalls[i] = (*self.played.stalls.get(i, ()), *stalls)
            of_pipe = self.played.stall[pipe]
            for cause, cycles in stalls:
                of_pipe[cause] = of_pipe.get(cause, 0.0) + cycles

    # GM ----------------------------------------------------------------------------------------
    def _transfer(self) -> bool:
        """Advance to the next event of the copies, a start of bytes or a completion; False if no event is left."""
        for pipe in (Pipe.MTE2, Pipe.MTE3):
            queue = self.queue[pipe]
            if pipe not in self.moving and queue and self.steps[queue[0]].kind is Kind.ISSUE:
                i = queue.popleft()
                begin, step = self._begin(pipe, i), self.steps[i]
                left = max(step.cycles - step.lead, 0.0)
                want = step.hold / left if left else 0.0
                self.moving[pipe] = _Transfer(i, begin, begin + step.lead, left, want)
        if not self.moving:
            return False
        moving = {p: x for p, x in self.moving.items() if x.asks <= self.gm_now}
        late = self.behind > self.patience * (1 + _TINY)
        given = _shares([x.want for x in moving.values()] + [1.0] * late)
        # Copies found later cannot begin before the first of these.
        events: dict[Pipe | None, float] = {}
        speed = {
            p: g / x.want if x.want else 1.0
            for (p, x), g in zip(moving.items(), given, strict=False)
        }
        for p, x in self.moving.items():
            events[p] = self.gm_now + x.left / speed[p] if p in speed else x.asks
        if late:
            events[None] = self.gm_now + (self.behind - self.patience) / given[-1]
        first = min(events, key=lambda p: (events[p], p is None, p or 0))
        passed = events[first] - self.gm_now
        for p, s in speed.items():
            x = self.moving[p]
            x.left = max(x.left - passed * s, 0.0) if p is not first else 0.0
        drained = passed * (given[-1] if late else max(1.0 - sum(given), 0.0))
        self.behind = max(self.behind - drained, 0.0) if first is not None else self.patience
        self.gm_now = events[first]
        if first in moving:
            x = self.moving.pop(first)
            later = self.steps[x.step].later
            self.behind, self.patience = self.behind + later, max(self.patience, 2 * later)
            self._end(first, x.step, x.begin, self.gm_now)
        return True


@dataclass(slots=True)
class _Transfer:
    """A copy in flight.

    Attributes:
        step: its position in the stream.
        begin: start of the instruction.
        asks: time at which it starts its bytes.
        left: remaining cycles of its bytes at full rate.
        want: the part of the core's share of GM that it requests.
    """

    step: int
    begin: float
    asks: float
    left: float
    want: float


#: Remainders below this are rounding.
_TINY = 1e-9


def _shares(want: Sequence[float]) -> list[float]:
    """Divide 1: each gets what it wants, or an equal part of the rest."""
    out = [0.0] * len(want)
    left, number = 1.0, len(want)
    for i in sorted(range(len(want)), key=lambda i: want[i]):
        out[i] = min(want[i], left / number)
        left, number = left - out[i], number - 1
    return out


def critical_path(played: Played) -> list[int]:
    """Return the chain of instructions in which each waits for the one before, first to last."""
    if not any(e >= 0 for e in played.end):
        return []
    at = max(range(len(played.end)), key=lambda i: (played.end[i], i))
    path = [at]
    seen = {at}
    while (at := played.binding[at]) >= 0 and at not in seen:
        seen.add(at)
        path.append(at)
    return path[::-1]
