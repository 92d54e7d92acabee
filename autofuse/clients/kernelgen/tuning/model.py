"""Times and bottlenecks of an operator's kernels, predicted by the target's model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from autofuse import __version__, api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.defining.definition import Definition
from autofuse.clients.kernelgen.state_format import Record, Settings, Speed
from autofuse.codegen.backends.triton.cost import KernelTime, modelled
from autofuse.codegen.backends.triton.kernels import Program
from autofuse.codegen.backends.triton.plan import plan
from autofuse.codegen.backends.triton.summary import plan_summary
from autofuse.codegen.backends.triton.tuning import KernelTuning, Tuning, graph_digest
from autofuse.implgraph.cutting.cut import Cutter
from autofuse.implgraph.ops.registry import lookup
from autofuse.targets import GpuTarget

__all__ = ["Model"]

#: Ops that are views in PyTorch: no kernel runs.
_VIEWS = frozenset(("view", "transpose", "slice", "broadcast"))


class Model:
    """The kernels of a graph on a target, with any block settings.

    Args:
        definition: definition of the operator.
        target: the card, or the cores of a chip.

    Attributes:
        graph: graph of the definition.
    """

    def __init__(self, definition: Definition, target: GpuTarget) -> None:
        self.graph, self.target = definition.graph, target
        self._moved = definition.analysis.read_bytes + definition.analysis.written_bytes
        self._hint = api.hint_of(self.graph, target=target)

    def tuning(self, settings: Settings) -> Tuning | None:
        """Return the tuning file for settings, or None without settings."""
        if not settings:
            return None
        kernels = tuple(KernelTuning(name, dict(sizes)) for name, sizes in settings.items())
        return Tuning(self.graph.label, graph_digest(self.graph), self.target.name, kernels)

    def program(self, settings: Settings) -> Program:
        """Return the program of the kernels.

        Raises:
            AutofuseError: AF3007, the kernels cannot use these settings.
        """
        return plan(self.graph, self._hint, self.target, self.tuning(settings))

    @property
    def by(self) -> dict[str, str]:
        """Model and version that produce the numbers."""
        return {"model": f"kernel times of {self.target.name}", "autofuse": __version__}

    def kernels(self, settings: Settings, sizes: Mapping[str, int]) -> tuple[KernelTime, ...]:
        """Return the times of the launched kernels."""
        return tuple(modelled(self.program(settings), self.target, sizes))

    def predicted(self, value: float, unit: str) -> Record:
        """Return a record of a number from the model."""
        return Record(value=round(value, 4), unit=unit, status="predicted", by=self.by)

    def speed(self, settings: Settings, sizes: Mapping[str, int]) -> Speed:
        """Return the predicted speed at some sizes.

        Raises:
            AutofuseError: as :meth:`program`.
        """
        labels = self.graph.symbol_labels()
        called = {labels[n]: size for n, size in sizes.items()}
        program = self.program(settings)
        parallelism = self._parallelism(program, sizes)
        kernels = tuple(modelled(program, self.target, sizes))
        us, base = sum(k.us for k in kernels), self._baseline(sizes)
        slowest = max(kernels, key=lambda k: k.us, default=None)
        return Speed(
            sizes=called,
            kernel=self.predicted(us, "us"),
            baseline=None if base is None else self.predicted(base, "us"),
            speedup=self.predicted(base / us, "x") if base and us else None,
            bandwidth=self.predicted(self.bandwidth(us, sizes), "%") if us else None,
            parallelism=parallelism,
            bottleneck="" if slowest is None else slowest.bottleneck,
        )

    def bandwidth(self, us: float, sizes: Mapping[str, int]) -> float:
        """Return the effective bandwidth of a call, in % of a copy's bandwidth on the target.

        Args:
            us: microseconds of the call.
            sizes: sizes of the symbols.
        """
        return 100 * self.needed_bytes(sizes) / (us * 1e3) / self.target.copy_gbs

    def needed_bytes(self, sizes: Mapping[str, int]) -> int:
        """Return the bytes that any kernel must move, each element once."""
        return self._moved.evaluate(sizes)

    def _parallelism(self, program: Program, sizes: Mapping[str, int]) -> Record | None:
        rows = [r for r in plan_summary(program, sizes) if r["launched"]]
        places = self.target.multiprocessors
        blocks = [r["programs"] * r["cluster"] for r in rows]
        share = min((100 * n / (-(-n // places) * places) for n in blocks if n), default=None)
        if share is None:
            return None
        by = {"plan": f"programs on {self.target.name}", "autofuse": __version__}
        return Record(value=round(share, 1), unit="%", status="predicted", by=by)

    def _baseline(self, sizes: Mapping[str, int]) -> float | None:
        """Return the microseconds of one kernel per op, as PyTorch runs them; None if an op has no kernel."""
        if not self._operators:
            return None
        used = [{n: sizes[n] for n in (s.name for s in p.graph.symbols)} for p in self._operators]
        return sum(
            k.us
            for p, s in zip(self._operators, used, strict=True)
            for k in modelled(p, self.target, s)
        )

    @cached_property
    def _operators(self) -> tuple[Program, ...]:
        cutter = Cutter(self.graph)
        programs = []
        for k, node in enumerate(cutter.nodes):
            if lookup(node.op).compute_type in _VIEWS:
                continue
            part = cutter.part(k, k + 1, f"{self.graph.name}_{k}")
            try:
                hint = api.hint_of(part, target=self.target)
                programs.append(plan(part, hint, self.target))
            except AutofuseError:
                return ()
        return tuple(programs)
