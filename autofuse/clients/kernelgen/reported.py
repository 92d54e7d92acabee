"""Times measured by a user with the performance script, on a device that this machine does not have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autofuse.base.artifacts import digest
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.clients.kernelgen.files.cases import Cases
from autofuse.clients.kernelgen.operator import Operator
from autofuse.clients.kernelgen.state_format import (
    Record,
    Results,
    Settings,
    Speed,
    State,
    read_results,
)
from autofuse.clients.kernelgen.tuning.tuner import speedup_of

__all__ = ["Reported"]


class Reported:
    """Times from result files, for the kernels of an operator.

    Args:
        operator: operator of the timed kernels.
        paths: paths of the files.

    Raises:
        AutofuseError: AF1xxx, a file cannot be read or is malformed; AF5007, it is for another operator.
    """

    def __init__(self, operator: Operator, paths: Sequence[Path]) -> None:
        self.operator = operator
        cases = Cases(operator.definition.graph, operator.definition.call)
        self._shapes = [cases.shapes([s])[0] for s in operator.sizes()]
        self._files: list[Results] = []
        for path in paths:
            found = read_results(path)
            if found.operator != operator.definition.name:
                text = f"the results belong to {found.operator}, not to {operator.definition.name}"
                raise AutofuseError.of("AF5007", text, where=Where(path=str(path)))
            self._files.append(found)

    def speeds(self, settings: Settings) -> tuple[Speed, ...] | None:
        """Return the times of the kernel with some settings, if any; bottlenecks come from the model."""
        kernel = digest(self.operator.kernel_text(settings))
        found = [f for f in self._files if f.kernel == kernel]
        speeds = [
            self._speed(settings, sizes, f, t.kernel_us, t.baseline_us)
            for sizes, shape in zip(self.operator.sizes(), self._shapes, strict=True)
            for f in found[-1:]
            for t in f.times
            if t.shape == shape
        ]
        return tuple(speeds) or None

    def _speed(
        self,
        settings: Settings,
        sizes: dict[str, int],
        file: Results,
        kernel_us: float,
        baseline_us: float,
    ) -> Speed:
        def measured(value: float, unit: str) -> Record:
            by = {"device": file.device, "script": "wall-clock time of a call"}
            return Record(
                value=round(value, 4), unit=unit, status="measured", by=by, when=file.when
            )

        model = self.operator.model
        return model.speed(settings, sizes).model_copy(
            update={
                "kernel": measured(kernel_us, "us"),
                "baseline": measured(baseline_us, "us"),
                "speedup": measured(baseline_us / kernel_us, "x"),
                "bandwidth": measured(model.bandwidth(kernel_us, sizes), "%"),
            }
        )

    def in_state(self, state: State) -> State:
        """Return the state with reported times in place of predictions, for the kernels that were timed.

        Raises:
            AutofuseError: AF5007, no kernel of the state was timed.
        """
        now = self.speeds(state.tuning)
        rounds, known = [], now is not None
        for r in state.rounds:
            before, after = self.speeds(r.before), self.speeds(r.after)
            known = known or before is not None or after is not None
            update: dict[str, object] = {}
            if before is not None:
                update |= {"speeds": before, "speedup": speedup_of(before)}
            if after is not None:
                result = speedup_of(after)
                update["result"] = result
                if result is not None and state.target_speedup is not None:
                    update["reached"] = result.value > state.target_speedup
            rounds.append(r.model_copy(update=update))
        if self._files and not known:
            text = f"the results belong to no generated or tuned kernel of {state.operator}"
            hint = "time the current kernel file of the folder"
            raise AutofuseError.of("AF5007", text, hint=hint)
        if now is not None:
            state = state.but(speeds=now, speedup=speedup_of(now))
        return state.but(rounds=tuple(rounds))
