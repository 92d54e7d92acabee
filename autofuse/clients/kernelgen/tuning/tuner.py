"""Rounds of tuning: a family of settings each, chosen by the bottleneck, the best that is right is kept.

A round changes the blocks of one kernel a step at a time.  What is tried, and in which order, follows from the plan,
the model and the patterns of earlier runs; what is kept, from times: measured on a card, else those of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import chain, zip_longest
from typing import Protocol

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.state_format import (
    Case,
    Code,
    Pattern,
    Profile,
    Record,
    Round,
    Settings,
    Speed,
    State,
    Trial,
)
from autofuse.clients.kernelgen.tuning.model import Model
from autofuse.clients.kernelgen.tuning.patterns import bucket_of, helping
from autofuse.clients.kernelgen.tuning.tables import (
    CHOICE,
    FAMILIES,
    document_name,
    preferred,
    title,
)
from autofuse.codegen.backends.triton.kernels import Kernel
from autofuse.codegen.backends.triton.tuning import Tuning

__all__ = ["Judge", "Tuner", "ratio", "speedup_of"]

#: Settings that a round tries, at most.
TRIALS = 6
#: Percent of the time that a setting has to save: less is noise of a measurement, or of a model.
_LEAST_GAIN = 1.0


class Judge(Protocol):
    """Judge of the speed and correctness of kernels with given settings."""

    def speeds(self, settings: Settings) -> tuple[Speed, ...]:
        """Times at every set of sizes.

        Raises:
            AutofuseError: the kernels cannot have these settings, or do not run.
        """

    def wrong(self, settings: Settings) -> str:
        """Return the failure that the accuracy test finds; empty if it passes."""


@dataclass(frozen=True, slots=True)
class _Move:
    """A change of the blocks of one kernel."""

    kernel: str
    steps: Mapping[str, int]
    settings: Settings
    known: bool = False


@dataclass
class Tuner:
    """Tunes the kernels of one operator.

    Attributes:
        model: of its target.
        judge: of settings.
        kind: of the operator.
        patterns: of earlier runs.
        target: the speedup that is wanted.
        rounds: at most.
        sizes: the largest of those that are timed, for the choice of kernels and bottleneck.
        text: of the kernel file with some settings.
        reported: times of kernels with some settings that were measured elsewhere; None where there are none.
        found: patterns of this run.
    """

    model: Model
    judge: Judge
    kind: str
    patterns: Sequence[Pattern]
    target: float
    rounds: int
    sizes: Mapping[str, int]
    text: Callable[[Settings], str]
    reported: Callable[[Settings], tuple[Speed, ...] | None] = lambda _: None
    found: list[Pattern] = field(default_factory=list)

    def run(self, state: State, keep: Callable[[State], State]) -> State:
        """Tune from what a state has, until the speedup is reached, or nothing is left.

        Args:
            state: rounds that it has already are not run again.
            keep: saves the state after every round, and returns it as it is saved.

        Returns:
            The state with all rounds.
        """
        while True:
            speeds = self.judge.speeds(state.tuning)
            # Rounds compare what is predicted with what is predicted.
            known = self.reported(state.tuning) or speeds
            speedup = speedup_of(known)
            state = state.but(speeds=known, speedup=speedup, target_speedup=self.target)
            if speedup is not None and speedup.value > self.target:
                return state.but(ended="the speedup that was wanted is reached")
            if len(state.rounds) >= self.rounds:
                return state.but(ended="all rounds have run")
            after = self._round(state, speeds)
            if after is None:
                return self._without(state).but(ended="no family of settings is left")
            state = keep(after)

    # one round --------------------------------------------------------------------------------

    def _round(self, state: State, speeds: tuple[Speed, ...]) -> State | None:
        """The state after one more round; None where no family has a setting to try."""
        bottleneck = speeds[-1].bottleneck if speeds else ""
        tried = {r.family for r in state.rounds}
        for family in self._order(bottleneck, state.tuning):
            if family in tried:
                continue
            moves = self._moves(family, state.tuning, bottleneck)
            if not moves:
                continue
            return self._tried(state, speeds, family, bottleneck, moves)
        return None

    def _order(self, bottleneck: str, settings: Settings) -> list[str]:
        """Families, those that helped in such a case first, then those that answer the bottleneck."""
        helped = [
            p.family
            for k in self._kernels(settings)
            for p in helping(self.patterns, self._case(k, bottleneck))
        ]
        return list(dict.fromkeys((*helped, *preferred(bottleneck))))

    def _without(self, state: State) -> State:
        """With the reason why each other family was passed over."""
        tried = {r.family for r in state.rounds}
        late = any(k.blocks is None for k in self.model.program({}).kernels)
        own = " kernels choose their blocks at the call;" if late else ""
        skipped = {
            family: (
                "no setting was changed that could be left to the rules again"
                if family == CHOICE
                else f"{own} no kernel has such a setting with another value that fits".strip()
            )
            for family in FAMILIES
            if family not in tried
        }
        return state.but(skipped=skipped)

    def _tried(
        self,
        state: State,
        speeds: tuple[Speed, ...],
        family: str,
        bottleneck: str,
        moves: Sequence[_Move],
    ) -> State:
        trials = [(move, *self._speeds(move.settings)) for move in moves]
        best, reasons = self._best(trials, speeds)
        after = state.tuning if best is None else best[0].settings
        result = speeds if best is None or best[1] is None else best[1]
        gain = _percent(speeds, result)
        if best is not None and gain is not None:
            self.found.append(self._pattern(state, best[0], family, bottleneck, gain))
        done = Round(
            version=state.kernel_version,
            family=family,
            bottleneck=bottleneck,
            why=_why(family, bottleneck, speeds),
            before=state.tuning,
            after=after,
            speeds=speeds,
            speedup=speedup_of(speeds),
            expected=self._expected(state.tuning, moves),
            trials=tuple(
                Trial(
                    settings=m.settings,
                    speedup=None if s is None else speedup_of(s),
                    reason=reason,
                    known=m.known,
                )
                for (m, s, _), reason in zip(trials, reasons, strict=True)
            ),
            result=speedup_of(result),
            gain=gain,
            target=self.target,
            reached=_reached(speedup_of(result), self.target),
            profile=Profile(),
            code=self._code(state.tuning, after, moves),
        )
        version = f"v1.{1 + sum(r.before != r.after for r in state.rounds)}"
        changed = {} if best is None else {"tuning": after, "kernel_version": version}
        return state.but(rounds=(*state.rounds, done), **changed)

    def _code(self, before: Settings, after: Settings, moves: Sequence[_Move]) -> Code:
        """The lines that the round changed; where it changed none, those that its first trial did."""
        old, new = self.text(before), self.text(after)
        other = new if new != old else self.text(moves[0].settings)
        a, b = old.splitlines(), other.splitlines()
        changes = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        spans = [(o[1:3], o[3:5]) for o in changes if o[0] != "equal"]
        was = "\n".join(line for span, _ in spans for line in a[slice(*span)])
        now = "\n".join(line for _, span in spans for line in b[slice(*span)])
        return Code(before=was, after=now if new != old else was)

    def _speeds(self, settings: Settings) -> tuple[tuple[Speed, ...] | None, str]:
        """Times, or why there are none."""
        try:
            return self.judge.speeds(settings), ""
        except AutofuseError as e:
            return None, e.diagnostics[0].message

    def _best(
        self,
        trials: Sequence[tuple[_Move, tuple[Speed, ...] | None, str]],
        before: tuple[Speed, ...],
    ) -> tuple[tuple[_Move, tuple[Speed, ...] | None, str] | None, list[str]]:
        """The fastest trial that is right, if it is faster than before, and why each other one is not taken."""
        reasons = [t[2] for t in trials]
        gains = {
            k: 100 * (r - 1)
            for k, t in enumerate(trials)
            if t[1] is not None and (r := ratio(before, t[1])) is not None
        }
        best = None
        for k in sorted(gains, key=lambda k: -gains[k]):
            if best is not None:
                reasons[k] = "slower than what was taken"
            elif gains[k] < _LEAST_GAIN:
                reasons[k] = "not faster than before"
            elif wrong := self.judge.wrong(trials[k][0].settings):
                reasons[k] = f"the accuracy test fails: {wrong}"
            else:
                best = trials[k]
        for k, t in enumerate(trials):
            if k not in gains and not reasons[k]:
                reasons[k] = "its time is not known" if t is not best else ""
        return best, reasons

    def _expected(self, before: Settings, moves: Sequence[_Move]) -> Record | None:
        """The largest gain that the model predicts."""

        def us(settings: Settings) -> float:
            return sum(k.us for k in self.model.kernels(settings, self.sizes))

        best = min(us(m.settings) for m in moves)
        return self.model.predicted(100 * (us(before) / best - 1), "%") if best else None

    # what may be tried ------------------------------------------------------------------------

    def _moves(self, family: str, settings: Settings, bottleneck: str) -> list[_Move]:
        """Changes that the kernels can have, those that helped in such a case first."""
        program = self.model.program(settings)
        present = {k.name: dict(k.sizes) for k in Tuning.of(program, self.model.target).kernels}
        kernels = [k for k in self._kernels(settings) if k.name in present]
        known, by_kernel = [], []
        for kernel in kernels:
            helped = helping(self.patterns, self._case(kernel, bottleneck))
            known += [
                self._move(kernel.name, p.change, settings, present, known=True)
                for p in helped
                if p.family == family
            ]
            steps = [{}] if family == CHOICE else list(FAMILIES[family].moves)
            by_kernel.append([self._move(kernel.name, s, settings, present) for s in steps])
        in_turn = chain.from_iterable(zip_longest(*by_kernel))
        return list(self._legal((*known, *in_turn), settings))

    def _legal(self, moves: Sequence[_Move | None], settings: Settings) -> Iterator[_Move]:
        """Of the changes the first few that the kernels can have and that change something."""
        seen = [settings]
        for move in moves:
            if move is None or move.settings in seen or len(seen) > TRIALS:
                continue
            seen.append(move.settings)
            try:
                self.model.program(move.settings)
            except AutofuseError:
                seen.pop()
                continue
            yield move

    def _move(
        self,
        kernel: str,
        steps: Mapping[str, int],
        settings: Settings,
        present: Mapping[str, Mapping[str, int]],
        *,
        known: bool = False,
    ) -> _Move | None:
        """Settings with a change; None where the kernel has no such setting, or nothing is left of it."""
        if not steps:
            kept = {k: dict(s) for k, s in settings.items() if k != kernel}
            return _Move(kernel, {}, kept, known)
        own = present[kernel]
        if any(k not in own for k in steps):
            return None
        changed = {k: _stepped(k, own[k], s) for k, s in steps.items()}
        if any(v < 1 for v in changed.values()):
            return None
        new = {**settings, kernel: {**settings.get(kernel, {}), **changed}}
        return _Move(kernel, dict(steps), new, known)

    def _kernels(self, settings: Settings) -> list[Kernel]:
        """Kernels that are launched, those that the model says take longest first."""
        program = self.model.program(settings)
        us = {k.name: k.us for k in self.model.kernels(settings, self.sizes)}
        launched = [k for k in program.kernels if k.name in us]
        return sorted(launched, key=lambda k: -us[k.name])

    def _case(self, kernel: Kernel, bottleneck: str) -> Case:
        target = self.model.target
        return Case(
            target=target.name,
            kind=self.kind,
            form=kernel.form.value,
            bucket=bucket_of(self.model.needed_bytes(self.sizes), target.l2_bytes),
            bottleneck=bottleneck,
        )

    def _pattern(
        self, state: State, move: _Move, family: str, bottleneck: str, gain: Record
    ) -> Pattern:
        kernel = next(k for k in self._kernels(state.tuning) if k.name == move.kernel)
        return Pattern(
            case=self._case(kernel, bottleneck),
            family=family,
            change=dict(move.steps),
            gain=gain,
            operator=state.operator,
            operators=(state.operator,),
        )


def _stepped(key: str, value: int, steps: int) -> int:
    """A setting some steps up or down; 0 where there is none."""
    if key == "stages":
        return max(0, value + steps)
    return value << steps if steps > 0 else value >> -steps


def _why(family: str, bottleneck: str, speeds: Sequence[Speed]) -> str:
    own = document_name(bottleneck, speeds[-1] if speeds else None)
    limit = f"the main bottleneck is {bottleneck}{f' ({own})' if own else ''}"
    if not bottleneck:
        return f"no bottleneck is named; {title(family)} comes next in the order of families"
    answers = family in preferred(bottleneck)[:2]
    return f"{limit}; {title(family)} {'answers it' if answers else 'is left to try'}"


# numbers --------------------------------------------------------------------------------------


def ratio(before: Sequence[Speed], after: Sequence[Speed]) -> float | None:
    """Return the speedup of the kernel, the geometric mean over all sizes; None if a time is unknown."""
    logs = []
    for a, b in zip(before, after, strict=True):
        if a.kernel is None or b.kernel is None or not a.kernel.value or not b.kernel.value:
            return None
        logs.append(math.log(a.kernel.value / b.kernel.value))
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def speedup_of(speeds: Sequence[Speed]) -> Record | None:
    """The geometric mean over all sizes; None where one is not known."""
    found = [s.speedup for s in speeds]
    known = [r for r in found if r is not None and r.value > 0]
    if not known or len(known) < len(found):
        return None
    mean = math.exp(math.fsum(math.log(r.value) for r in known) / len(known))
    return known[-1].model_copy(update={"value": round(mean, 4)})


def _percent(before: Sequence[Speed], after: Sequence[Speed]) -> Record | None:
    """The gain in % of the speed, as a record of the same kind as the times."""
    r, last = ratio(before, after), after[-1].kernel if after else None
    if r is None or last is None:
        return None
    return last.model_copy(update={"value": round(100 * (r - 1), 2), "unit": "%"})


def _reached(speedup: Record | None, target: float) -> bool | None:
    return None if speedup is None else speedup.value > target
