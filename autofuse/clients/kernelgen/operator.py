"""An operator for the stages after the first: its files, sizes, and judges of its kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.defining.definition import Definition
from autofuse.clients.kernelgen.defining.functions import remembered
from autofuse.clients.kernelgen.defining.shapes import (
    ASSUMED_MEMORY,
    accuracy_sizes,
    performance_sizes,
)
from autofuse.clients.kernelgen.files.generate import four_files, kernel_text, triton_target
from autofuse.clients.kernelgen.files.naming import FileNames, file_names, operator_name
from autofuse.clients.kernelgen.state_format import Accuracy, Settings, Speed
from autofuse.clients.kernelgen.testing.accuracy import Pair, accuracy, elements_of
from autofuse.clients.kernelgen.testing.speed import Bench
from autofuse.clients.kernelgen.tuning.model import Model
from autofuse.implgraph.cutting.dimensions import shrink
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.sizes import largest_tensor
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.words import CPU, card_index
from autofuse.targets import GpuTarget

__all__ = ["Measuring", "Operator", "Predicting"]

#: Maximum elements of fixed sizes for which the interpreter runs a kernel unshrunk.
_INTERPRETED_WHOLE = 1 << 20
#: The limit for a baseline that is compared with the function of its graph.
_COMPARED_WHOLE = 1 << 23


@dataclass
class Operator:
    """An operator with a target whose kernels are written in Triton.

    Attributes:
        definition: definition of the operator.
        names: naming convention of the files, ``kernelgen`` or ``document``.
        pool: result of :func:`~autofuse.clients.kernelgen.testing.accuracy.workers`, shared by several accuracy tests;
            None: one per test.
    """

    definition: Definition
    names: str
    pool: WorkerPool | None = None

    @cached_property
    def target(self) -> GpuTarget:
        """Target of the kernels.

        Raises:
            AutofuseError: AF5007, the definition's device has no Triton kernels.
        """
        return triton_target(self.definition.device)

    @cached_property
    def model(self) -> Model:
        """Model of the target."""
        return Model(self.definition, self.target)

    @property
    def called(self) -> FileNames:
        """Names of the files."""
        return file_names(operator_name(self.definition.graph), self.names)

    def files(self, settings: Settings) -> dict[str, str]:
        """Return the files of the second stage."""
        return four_files(self.definition, names=self.names, tuning=self.model.tuning(settings))

    def kernel_text(self, settings: Settings) -> str:
        """Return only the kernel file."""
        return kernel_text(self.definition, self.model.tuning(settings))

    def pair(self, settings: Settings) -> Pair:
        """Return kernel and baseline."""
        return self._pair(self.definition.graph, self.files(settings))

    def _pair(self, graph: FusionGraph, files: Mapping[str, str]) -> Pair:
        kernel, baseline = files[self.called.kernel], files[self.called.baseline]
        function = self.definition.function
        where = None if function is None else (*remembered(function), function.name)
        return Pair(graph, operator_name(graph), kernel, baseline, self.definition.call, where)

    def sizes(self, memory: int = ASSUMED_MEMORY) -> tuple[dict[str, int], ...]:
        """Return the sizes to time, smallest first: the graph's typical sizes, and those of the document.

        Args:
            memory: bytes of device memory.
        """
        graph = self.definition.graph
        found = list(performance_sizes(graph, memory))
        typical = {s.name: s.hint for s in graph.symbols if s.hint is not None}
        if typical and len(typical) == len(graph.symbols) and typical not in found:
            found.insert(0, typical)
        return tuple(sorted(found, key=self.model.needed_bytes))

    def accuracy(
        self,
        settings: Settings,
        device: str,
        facts: Mapping[str, str] | None,
        *,
        seed: int = 0,
        few: bool = False,
    ) -> tuple[Accuracy, ...]:
        """Run the accuracy test of the kernels with some settings.

        In the interpreter, a graph with fixed sizes that are too large is shrunk.

        Raises:
            AutofuseError: AF5001, AF5007, the device; AF5003, a shrunk kernel cannot use these settings.
        """
        graph = self.definition.graph
        if (
            card_index(device) is None
            and not graph.symbols
            and largest_tensor(graph, {}) > _INTERPRETED_WHOLE
        ):
            if settings:
                text = f"{graph.label} is too large for the interpreter, and the settings are specific to its sizes"
                raise AutofuseError.of("AF5003", text, hint="--device cuda checks it on a card")
            small = replace(self.definition, graph=shrink(graph, elements_of(device)))
            more: dict[str, Any] = {"facts": facts, "seed": seed, "few": few, "pool": self.pool}
            # A function may hard-code the sizes of its example: at these, the baseline takes the place of the kernel.
            pair = self._pair(small.graph, four_files(small, names=self.names))
            cases = accuracy(dataclasses.replace(pair, function=None), [{}], **more)
            cases = tuple(c.model_copy(update={"smaller": True}) for c in cases)
            if pair.function is None or largest_tensor(graph, {}) > _COMPARED_WHOLE:
                return cases
            text = self.files({})[self.called.baseline]
            whole = dataclasses.replace(pair, graph=graph, kernel=text, baseline=text)
            return (
                *cases,
                *(c for c in accuracy(whole, [{}], **{**more, "few": True}) if not c.ok),
            )
        return accuracy(
            self.pair(settings),
            accuracy_sizes(graph),
            device=device,
            facts=facts,
            seed=seed,
            few=few,
            pool=self.pool,
        )


@dataclass(frozen=True)
class Predicting:
    """Judge with times from the model and accuracy from the interpreter."""

    operator: Operator

    def speeds(self, settings: Settings) -> tuple[Speed, ...]:
        """Return the predicted times at every set of sizes."""
        operator = self.operator
        return tuple(operator.model.speed(settings, s) for s in operator.sizes())

    def wrong(self, settings: Settings) -> str:
        """Return the failure of the accuracy test; empty if it passes."""
        return _wrong(self.operator, settings, CPU, None)


@dataclass(frozen=True)
class Measuring:
    """Judge with times and accuracy from a card; each baseline is timed once."""

    operator: Operator
    bench: Bench
    _baselines: dict[tuple[tuple[str, int], ...], Speed] = field(default_factory=dict)

    def speeds(self, settings: Settings) -> tuple[Speed, ...]:
        """Return the measured times at every set of sizes."""
        sizes = self.operator.sizes(self.bench.memory)
        pair = self.operator.pair(settings)
        return tuple(self._speed(settings, pair, s) for s in sizes)

    def wrong(self, settings: Settings) -> str:
        """Return the failure of the accuracy test; empty if it passes."""
        return _wrong(self.operator, settings, self.bench.device, self.bench.facts)

    def _speed(self, settings: Settings, pair: Pair, sizes: dict[str, int]) -> Speed:
        """Return the model's bottleneck and parallelism together with measured times."""
        bench, model = self.bench, self.operator.model
        key = tuple(sizes.items())
        if key not in self._baselines:
            (base,) = bench.times([pair.baseline], pair, sizes)
            self._baselines[key] = Speed(sizes=sizes, baseline=base.record)
        (own,) = bench.times([pair.kernel], pair, sizes)
        if own.record is None:
            raise AutofuseError.of("AF5003", f"the kernel does not run: {own.reason}")
        base_record, us = self._baselines[key].baseline, own.record.value
        update = {
            "kernel": own.record,
            "baseline": base_record,
            "speedup": bench.measured(base_record.value / us, "x") if base_record and us else None,
            "bandwidth": bench.measured(model.bandwidth(us, sizes), "%") if us else None,
        }
        return model.speed(settings, sizes).model_copy(update=update)


def _wrong(
    operator: Operator, settings: Settings, device: str, facts: Mapping[str, str] | None
) -> str:
    """Return the first failure of the accuracy test with the listed sizes; empty if it passes."""
    try:
        cases = operator.accuracy(settings, device, facts, few=True)
    except AutofuseError as e:
        return e.diagnostics[0].message
    return next((c.reason for c in cases if not c.ok), "")
