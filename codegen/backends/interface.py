"""Interface of a backend, which takes the schedule of a graph and owns every stage from there to the files.

A backend that plans its kernels itself (``Capabilities.plans``) takes the simplified HintGraph instead of a schedule.

A backend is a folder beside this file whose module ``backend`` defines an object ``BACKEND``; a target's data name it
(``backend = "ascendc"``).  :func:`autofuse.compiler.compile` accepts any other object with these members.

The target's data tell the scheduler the budgets, the calls, and ``queues``: whether data cross between pipes in queues,
or lie in plain arrays that calls read and write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Protocol, TypeAlias, TypeVar

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.observing import Observer
from autofuse.implgraph.cutting.cut import Split
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.search.costs import Costs
from autofuse.targets import PlannedTarget, Target, TargetSpec, ascend_chip

__all__ = [
    "Backend",
    "Capabilities",
    "Files",
    "Job",
    "Stage",
    "generate",
    "load_backend",
    "plans",
    "prepared",
]

#: A stage by name: maps the previous stage's output to its own.  The first stage takes the schedule, or the HintGraph;
#: the last one returns the files, relative path -> text.
Stage: TypeAlias = tuple[str, Callable[[Any], Any]]
#: Runs a stage by name: ``run(name, function, value)``.
StageRunner: TypeAlias = Callable[[str, Callable[[Any], Any], Any], Any]
Files: TypeAlias = Mapping[str, str]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a backend.

    Attributes:
        entries: supported kernel entries, the default first.
        queues: it emits queues, the order of pipes and addresses in local memory, for targets that have them; otherwise
            it supports targets whose local memory is plain arrays.
        families: template families that it supports; None for all.
        split_entries: entries for which it can emit host code that runs several kernels as one.
        plans: it takes the HintGraph, without divided reductions and merged axes, for targets of this class, and plans
            as many kernels as the graph needs; None: it takes the schedule for a :class:`~autofuse.targets.TargetSpec`.
        gradients: the entries that support a gradient graph.
        tuning: class of its tuning files; None if it supports none.
        masks: for a backend that plans: it masks reads that may be out of bounds
            (:func:`~autofuse.implgraph.lowering.lowering.lower_undivided`).
    """

    entries: tuple[str, ...]
    queues: bool
    families: frozenset[str] | None = None
    split_entries: tuple[str, ...] = ()
    plans: type[PlannedTarget] | None = None
    gradients: tuple[str, ...] = ()
    masks: bool = False
    tuning: type[Any] | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One graph to generate kernels for.

    Attributes:
        graph: the original graph.
        target: target of the kernels.
        costs: costs of the templates from the scheduler; None for a backend that plans.
        entry: kernel entry, one of ``Capabilities.entries``.
        backward: for an entry with gradients, the gradient graph and the files of its kernel; else None.
        check: run all proofs before emitting.
        observe: callback for every pass inside a stage; None for no callback.
    """

    graph: FusionGraph
    target: Target
    costs: Costs | None
    entry: str = "launch"
    check: bool = False
    observe: Observer | None = None
    backward: tuple[FusionGraph, Files] | None = None

    @property
    def chip(self) -> TargetSpec:
        """Return the target of a backend that takes the schedule."""
        return ascend_chip(self.target)

    def aimed(self, kind: type[_T]) -> _T:
        """Return the target of a backend that plans for targets of this class."""
        assert isinstance(self.target, kind)
        return self.target


class Backend(Protocol):
    """Code generator for one dialect."""

    @property
    def name(self) -> str:
        """Return the name that target data refer to."""

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities of this backend."""

    def stages(self, job: Job) -> Sequence[Stage]:
        """Return the stages from ``tuple[ScheduleResult, ...]``, or from a HintGraph if it plans, to the files.

        Raises:
            AutofuseError: raised by a stage for unsupported input, or AF4001 for a refuted obligation.
        """

    def tuned(self, tuning: Any) -> Backend:
        """Return the backend with the contents of a tuning file, of the class ``Capabilities.tuning``.

        Raises:
            AutofuseError: AF5007, it does not support tuning.
        """
        raise AutofuseError.of("AF5007", f"the backend {self.name} does not support tuning files")

    def join(
        self,
        split: Split,
        schedules: Sequence[tuple[ScheduleResult, ...]],
        parts: Sequence[Files],
        target: TargetSpec,
    ) -> dict[str, str]:
        """Return the files of a graph that runs as several kernels, including its ``parts``; optional.

        Raises:
            AutofuseError: AF5007, it has no ``split_entries``; AF3006, tensors passed between the parts are too large.
        """
        raise AutofuseError.of(
            "AF5007", f"the backend {self.name} writes only one kernel at a time"
        )


def plans(target: Target) -> bool:
    """Return True if a target's backend plans its kernels, without a schedule or templates."""
    return load_backend(target.backend).capabilities.plans is not None


def prepared(backend: Backend, entry: str, target: Target) -> Target:
    """Return the target for the scheduler, restricted to the template families that the backend supports.

    Raises:
        AutofuseError: AF5007, the backend does not support this entry, or a feature that the target requires.
    """
    can = backend.capabilities
    if entry not in can.entries:
        hint = f"known entries: {', '.join(can.entries)}"
        raise AutofuseError.of("AF5007", f"unknown entry {entry!r}", hint=hint)
    if not isinstance(target, can.plans or TargetSpec):
        text = f"the backend {backend.name} does not write kernels for {target.name}"
        raise AutofuseError.of("AF5007", text)
    if can.plans is not None:
        return target
    target = ascend_chip(target)
    if can.queues != target.queues:
        needs = "queues" if can.queues else "plain arrays"
        text = f"the backend {backend.name} writes {needs}, which {target.name} does not have"
        raise AutofuseError.of("AF5007", text)
    return target if can.families is None else replace(target, families=can.families)


def load_backend(name: str) -> Backend:
    """Return the backend in the folder ``name``, importing its modules on demand.

    Raises:
        AutofuseError: AF5007 if there is none.
    """
    package = __name__.rpartition(".")[0]
    known = _known(package)
    if name not in known:
        hint = f"backends: {', '.join(known)}"
        raise AutofuseError.of("AF5007", f"there is no backend {name!r}", hint=hint)
    backend: Backend = import_module(f"{package}.{name}.backend").BACKEND
    return backend


@lru_cache(maxsize=1)
def _known(package: str) -> tuple[str, ...]:
    """Return the subfolders of a package; cached."""
    return tuple(m.name for m in iter_modules(import_module(package).__path__) if m.ispkg)


def generate(
    backend: Backend,
    job: Job,
    schedule: tuple[ScheduleResult, ...] | HintGraph,
    run: StageRunner | None = None,
) -> dict[str, str]:
    """Generate the files of a kernel by running a backend's stages in order.

    Args:
        backend: backend with the stages.
        job: job to generate.
        schedule: the schedule of the graph; for a backend that plans, its HintGraph.
        run: runs a stage, as ``run(name, function, value)``; None calls the stages directly.
    """
    value: Any = schedule
    for name, stage in backend.stages(job):
        value = stage(value) if run is None else run(name, stage, value)
    return dict(value)
