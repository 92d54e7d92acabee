"""Interface of a backend, which takes the schedule of a graph and owns every stage from there to the files.

A backend that plans its kernels itself (``Capabilities.plans``) gets the simplified HintGraph instead, and no schedule.

A backend is a folder beside this file whose module ``backend`` has an object ``BACKEND``; the data of a target name it
(``backend = "ascendc"``).  Any other object with these members can be given to :func:`autofuse.compiler.compile`.

The data of the target tell the scheduler what it must know: budgets, calls, and ``queues``: whether data cross between
pipes in queues, or lie in plain arrays that calls read and write.
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

#: A stage by name: from the output of the one before it to its own.  The first one takes the schedule, or the
#: HintGraph; the last one returns the files, relative path -> text.
Stage: TypeAlias = tuple[str, Callable[[Any], Any]]
#: Calls a stage by name: ``run(name, function, value)``.
StageRunner: TypeAlias = Callable[[str, Callable[[Any], Any], Any], Any]
Files: TypeAlias = Mapping[str, str]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a backend.

    Attributes:
        entries: ways to enter a kernel, the usual one first.
        queues: it writes queues, the order of pipes and addresses in local memory, for targets that have them;
            otherwise it takes targets whose local memory is plain arrays.
        families: the template families that it can write; None: all of them.
        split_entries: the entries for which it can write host code that runs several kernels as one.
        plans: it takes the HintGraph, in which no reduction is divided and no axes are merged, for targets of this
            class, and plans as many kernels as the graph needs; None: it takes the schedule for a
            :class:`~autofuse.targets.TargetSpec`.
        gradients: the entries that support a gradient graph.
        tuning: the class of what a tuning file gives; None: it takes none.
        masks: of a backend that plans: it masks reads that may lie outside a tensor's memory
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
    """One graph to write kernels for.

    Attributes:
        graph: the graph as it was read.
        target: what the kernels are for.
        costs: of the templates, as the scheduler found them; None for a backend that plans.
        entry: how the kernel is entered, one of ``Capabilities.entries``.
        backward: for an entry that has gradients, the graph of them, and the files of its kernel; None: there is none.
        check: prove what can be proved before it is written.
        observe: told about every pass inside a stage; None: nobody listens.
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
        """The target of a backend that takes the schedule."""
        return ascend_chip(self.target)

    def aimed(self, kind: type[_T]) -> _T:
        """Return the target of a backend that plans for targets of this class."""
        assert isinstance(self.target, kind)
        return self.target


class Backend(Protocol):
    """Writer of kernels in one dialect."""

    @property
    def name(self) -> str:
        """Return the name that the data of a target use."""

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities of this backend."""

    def stages(self, job: Job) -> Sequence[Stage]:
        """The stages from ``tuple[ScheduleResult, ...]``, or from a HintGraph if it plans, to the files.

        Raises:
            AutofuseError: by a stage, for what cannot be written, or AF4001 for what is proved to be wrong.
        """

    def tuned(self, tuning: Any) -> Backend:
        """Return the backend with what a tuning file gives, of the class ``Capabilities.tuning``.

        Raises:
            AutofuseError: AF5007, it takes none.
        """
        raise AutofuseError.of("AF5007", f"the backend {self.name} takes no tuning file")

    def join(
        self,
        split: Split,
        schedules: Sequence[tuple[ScheduleResult, ...]],
        parts: Sequence[Files],
        target: TargetSpec,
    ) -> dict[str, str]:
        """Return the files of a graph that runs as several kernels, with those of its ``parts``; optional.

        Raises:
            AutofuseError: AF5007, it has no ``split_entries``; AF3006, tensors passed between the parts are too large.
        """
        raise AutofuseError.of("AF5007", f"the backend {self.name} writes one kernel at a time")


def plans(target: Target) -> bool:
    """Return True if the backend of a target plans its kernels: there is no schedule, and there are no templates."""
    return load_backend(target.backend).capabilities.plans is not None


def prepared(backend: Backend, entry: str, target: Target) -> Target:
    """The target as the scheduler is to see it: with the template families that the backend can write.

    Raises:
        AutofuseError: AF5007, the backend does not have this entry, or not what the target asks for.
    """
    can = backend.capabilities
    if entry not in can.entries:
        hint = f"known entries: {', '.join(can.entries)}"
        raise AutofuseError.of("AF5007", f"unknown entry {entry!r}", hint=hint)
    if not isinstance(target, can.plans or TargetSpec):
        text = f"the backend {backend.name} writes no kernels for {target.name}"
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
    """The backend in the folder ``name``; its modules are imported here, not before.

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
    """Names of the folders of a package: looked for once."""
    return tuple(m.name for m in iter_modules(import_module(package).__path__) if m.ispkg)


def generate(
    backend: Backend,
    job: Job,
    schedule: tuple[ScheduleResult, ...] | HintGraph,
    run: StageRunner | None = None,
) -> dict[str, str]:
    """The files of a kernel: the stages of a backend, one after another.

    Args:
        backend: whose stages.
        job: what to write.
        schedule: the schedule of the graph; for a backend that plans, its HintGraph.
        run: calls a stage, as ``run(name, function, value)``; None: nothing is to be known about them.
    """
    value: Any = schedule
    for name, stage in backend.stages(job):
        value = stage(value) if run is None else run(name, stage, value)
    return dict(value)
