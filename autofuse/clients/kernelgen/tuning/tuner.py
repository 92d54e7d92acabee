"""Rounds of tuning: each tries one family of settings, chosen by the bottleneck, and keeps the best correct one.

A round changes the blocks of one kernel a step at a time.  The plan, the model and the patterns of earlier runs
determine the trials and their order; times decide which to keep: measured on a card, else predicted by the model.
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

#: Maximum number of settings tried in a round.
TRIALS = 6
#: Minimum time saved by a setting, in percent: less is measurement or model noise.
_LEAST_GAIN = 1.0


class Judge(Protocol):
    """Judge of the speed and correctness of kernels with given settings."""

    def speeds(self, settings: Settings) -> tuple[Speed, ...]:
        """Return the times at every set of sizes.

        Raises:
            AutofuseError: the kernels cannot use these settings, or do not run.
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
        model: model of the target.
        judge: judge of settings.
        kind: kind of the operator.
        patterns: patterns of earlier runs.
        target: the requested speedup.
        rounds: maximum number of rounds.
        sizes: the largest timed sizes, for the choice of kernels and bottleneck.
        text: returns the kernel file with given settings.
        reported: returns times with given settings that were measured elsewhere; None keeps the predicted ones.
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
        """Continue tuning from a state until it reaches the speedup or runs out of settings to try.

        Args:
            state: its existing rounds are not run again.
            keep: saves the state after every round, and returns it as saved.

        Returns:
            The state with all rounds.
        """
        while True:
            speeds = self.judge.speeds(state.tuning)
            # Rounds compare predictions only with predictions.
            known = self.reported(state.tuning) or speeds
            speedup = speedup_of(known)
            state = state.but(speeds=known, speedup=speedup, target_speedup=self.target)
            if speedup is not None and speedup.value > self.target:
                return state.but(ended="the target speedup is reached")
            if len(state.rounds) >= self.rounds:
                return state.but(ended="all rounds have run")
            after = self._round(state, speeds)
            if after is None:
                return self._without(state).but(ended="no family of settings is left")
            state = keep(after)

    # one round --------------------------------------------------------------------------------

    def _round(self, state: State, speeds: tuple[Speed, ...]) -> State | None:
        """Return the state after one more round; None if no family has a setting to try."""
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
        """Return the families: those that helped in such a case first, then those that address the bottleneck."""
        helped = [
            p.family
            for k in self._kernels(settings)
            for p in helping(self.patterns, self._case(k, bottleneck))
        ]
        return list(dict.fromkeys((*helped, *preferred(bottleneck))))

    def _without(self, state: State) -> State:
        """Return the state with the reason for skipping each other family."""
        tried = {r.family for r in state.rounds}
        late = any(k.blocks is None for k in self.model.program({}).kernels)
        own = " kernels choose their blocks at the call;" if late else ""
        skipped = {
            family: (
                "no changed setting could go back to the default rules"
                if family == CHOICE
                else f"{own} no kernel has such a setting with another legal value".strip()
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
        """Return the lines that the round changed; if none, those that its first trial changed."""
        old, new = self.text(before), self.text(after)
        other = new if new != old else self.text(moves[0].settings)
        a, b = old.splitlines(), other.splitlines()
        changes = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        spans = [(o[1:3], o[3:5]) for o in changes if o[0] != "equal"]
        was = "\n".join(line for span, _ in spans for line in a[slice(*span)])
        now = "\n".join(line for _, span in spans for line in b[slice(*span)])
        return Code(before=was, after=now if new != old else was)

    def _speeds(self, settings: Settings) -> tuple[tuple[Speed, ...] | None, str]:
        """Return times, or the reason why there are none."""
        try:
            return self.judge.speeds(settings), ""
        except AutofuseError as e:
            return None, e.diagnostics[0].message

    def _best(
        self,
        trials: Sequence[tuple[_Move, tuple[Speed, ...] | None, str]],
        before: tuple[Speed, ...],
    ) -> tuple[tuple[_Move, tuple[Speed, ...] | None, str] | None, list[str]]:
        """Return the fastest correct trial if it improves on before, and the reason for rejecting each other one."""
        reasons = [t[2] for t in trials]
        gains = {
            k: 100 * (r - 1)
            for k, t in enumerate(trials)
            if t[1] is not None and (r := ratio(before, t[1])) is not None
        }
        best = None
        for k in sorted(gains, key=lambda k: -gains[k]):
            if best is not None:
                reasons[k] = "slower than the chosen setting"
            elif gains[k] < _LEAST_GAIN:
                reasons[k] = "not faster than before"
            elif wrong := self.judge.wrong(trials[k][0].settings):
                reasons[k] = f"the accuracy test fails: {wrong}"
            else:
                best = trials[k]
        for k, t in enumerate(trials):
            if k not in gains and not reasons[k]:
                reasons[k] = "its time is unknown" if t is not best else ""
        return best, reasons

    def _expected(self, before: Settings, moves: Sequence[_Move]) -> Record | None:
        """Return the largest gain predicted by the model."""

        def us(settings: Settings) -> float:
            return sum(k.us for k in self.model.kernels(settings, self.sizes))

        best = min(us(m.settings) for m in moves)
        return self.model.predicted(100 * (us(before) / best - 1), "%") if best else None

    # possible changes -------------------------------------------------------------------------

    def _moves(self, family: str, settings: Settings, bottleneck: str) -> list[_Move]:
        """Return the changes possible for the kernels, those that helped in such a case first."""
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
        """Yield the first few changes that are legal for the kernels and have an effect."""
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
        """Return the settings with a change; None if the kernel lacks such a setting, or it would drop to 0."""
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
        """Return the launched kernels, slowest first according to the model."""
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
    """Return a setting some steps up or down, or 0 below the lowest."""
    if key == "stages":
        return max(0, value + steps)
    return value << steps if steps > 0 else value >> -steps


def _why(family: str, bottleneck: str, speeds: Sequence[Speed]) -> str:
    own = document_name(bottleneck, speeds[-1] if speeds else None)
    limit = f"the main bottleneck is {bottleneck}{f' ({own})' if own else ''}"
    if not bottleneck:
        return f"no bottleneck is named; {title(family)} comes next in order"
    answers = family in preferred(bottleneck)[:2]
    return f"{limit}; {title(family)} {'addresses it' if answers else 'is left to try'}"


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
    """Return the geometric mean over all sizes; None if one is unknown."""
    found = [s.speedup for s in speeds]
    known = [r for r in found if r is not None and r.value > 0]
    if not known or len(known) < len(found):
        return None
    mean = math.exp(math.fsum(math.log(r.value) for r in known) / len(known))
    return known[-1].model_copy(update={"value": round(mean, 4)})


def _percent(before: Sequence[Speed], after: Sequence[Speed]) -> Record | None:
    """Return the gain in % of the speed, as a record of the same kind as the times."""
    r, last = ratio(before, after), after[-1].kernel if after else None
    if r is None or last is None:
        return None
    return last.model_copy(update={"value": round(100 * (r - 1), 2), "unit": "%"})


def _reached(speedup: Record | None, target: float) -> bool | None:
    return None if speedup is None else speedup.value > target
