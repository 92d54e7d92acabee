"""The Ascend C backend: its stages, from a schedule to the files of a kernel.

====== ============================================ ===================================================
stage  what                                         module
====== ============================================ ===================================================
kernel KernelIR of every template, lowered once     autofuse.codegen.backends.ascendc.device
passes syncs, barriers, names, unused definitions   autofuse.codegen.passes
check  proofs about the emitted code; on demand     autofuse.codegen.verification
emit   kernel, host code, project, metadata         autofuse.codegen.backends.ascendc
====== ============================================ ===================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autofuse.base import artifacts
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.device import (
    ENTRIES,
    OP_PACKAGE,
    function_headers,
    kernel_file,
)
from autofuse.codegen.backends.ascendc.emit_cpp import BLOCK_BYTES
from autofuse.codegen.backends.ascendc.host.driver import driver_files, part_folder
from autofuse.codegen.backends.ascendc.host.host import host_files
from autofuse.codegen.backends.ascendc.host.metadata import metadata_text
from autofuse.codegen.backends.ascendc.host.tuned import TUNED_HEADER
from autofuse.codegen.backends.ascendc.op_package.files import check_operator, op_files
from autofuse.codegen.backends.ascendc.op_package.naming import operator_names
from autofuse.codegen.backends.ascendc.project import project_files, shared_headers
from autofuse.codegen.backends.ascendc.releases import all_releases, releases_of
from autofuse.codegen.backends.ascendc.torchext.files import torch_files
from autofuse.codegen.backends.ascendc.tuning import Tilings, check_tilings
from autofuse.codegen.backends.interface import Capabilities, Files, Job, Stage
from autofuse.codegen.ir.kernel_ir import KernelFn
from autofuse.codegen.lower.kernel import lower_templates
from autofuse.codegen.passes import PIPELINE
from autofuse.implgraph.cutting.cut import Split
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.targets import TargetSpec

if TYPE_CHECKING:
    from autofuse.codegen.backends.interface import Backend

__all__ = ["BACKEND", "AscendC", "Kernel"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Schedule, and the function of every template by name, passed from stage to stage."""

    schedule: tuple[ScheduleResult, ...]
    functions: Mapping[str, KernelFn]


#: Architecture constants that ``device_templates`` and ``host_templates`` are written for.
_HEADERS = {"block_bytes": BLOCK_BYTES, "vector_bytes": 256, "repeats_max": 255}
_CAN = Capabilities(
    ENTRIES, queues=True, split_entries=("launch",), gradients=("torch",), tuning=Tilings
)


@dataclass(frozen=True, slots=True)
class AscendC:
    """Emit kernels in Ascend C, with host code in C++ and a CMake project.

    Attributes:
        tuning: tilings tried before the search; None for none.
    """

    name: str = "ascendc"
    capabilities: Capabilities = _CAN
    tuning: Tilings | None = None

    def tuned(self, tuning: Tilings) -> Backend:
        """Return a backend that tries these tilings before the search."""
        return replace(self, tuning=tuning)

    def stages(self, job: Job) -> Sequence[Stage]:
        """Return the stages of the table above."""
        table: list[Stage] = [
            ("kernel", lambda schedule: _lowered(job, schedule)),
            ("passes", lambda kernel: _passed(job, kernel)),
        ]
        if job.check:
            table.append(("check", lambda kernel: _checked(job, kernel)))
        return [*table, ("emit", lambda kernel: _emitted(job, kernel, self.tuning))]

    def join(
        self,
        split: Split,
        schedules: Sequence[tuple[ScheduleResult, ...]],
        parts: Sequence[Files],
        target: TargetSpec,
    ) -> dict[str, str]:
        """Return a driver with the interface of one kernel, and the parts in subfolders."""
        kernels = [f"device/{p.graph.name}_kernel.cpp" for p in split.parts]
        needs = [releases_of(f[k], f, target.arch) for k, f in zip(kernels, parts, strict=True)]
        files = driver_files(split, schedules, target, all_releases(needs))
        for part, made in zip(split.parts, parts, strict=True):
            own = {**made, artifacts.MANIFEST: artifacts.manifest_text(made)}
            folder = part_folder(part.graph.name)
            files |= {f"{folder}/{name}": text for name, text in own.items()}
        return files


BACKEND = AscendC()


def _lowered(job: Job, schedule: tuple[ScheduleResult, ...]) -> Kernel:
    """Lower the schedule; raise AF5006 for an architecture that the headers do not support."""
    arch = job.chip.arch
    for name, value in _HEADERS.items():
        if (found := getattr(arch, name)) != value:
            text = f"{name} of architecture {arch.name} is {found}"
            raise AutofuseError.of(
                "AF5006",
                f"cannot generate Ascend C for {job.chip.name}: {text}",
                hint=f"the device functions support only {value}",
            )
    return Kernel(schedule, lower_templates(job.graph, schedule, job.chip))


def _passed(job: Job, kernel: Kernel) -> Kernel:
    for p in PIPELINE:
        done = replace(kernel, functions={name: p(fn) for name, fn in kernel.functions.items()})
        if job.observe is not None:
            job.observe("passes", type(p).__name__, kernel, done)
        kernel = done
    return kernel


def _checked(job: Job, kernel: Kernel) -> Kernel:
    from autofuse.codegen.verification import check_schedule

    check_schedule(job.graph, kernel.schedule, job.chip, kernel.functions)
    return kernel


def _emitted(job: Job, kernel: Kernel, tuning: Tilings | None) -> dict[str, str]:
    """Return the files; entries for CANN and PyTorch add their own project around the kernel."""
    graph, schedule, target = job.graph, kernel.schedule, job.chip
    name = graph.name
    if job.entry == OP_PACKAGE:
        check_operator(graph)
        name = operator_names(graph).function
    text = kernel_file(graph, schedule, kernel.functions, target, job.entry, name)
    assert job.costs is not None
    given = () if tuning is None else check_tilings(tuning, graph, schedule, job.costs)
    functions = function_headers(schedule, target.arch, job.entry)
    needs = releases_of(text, shared_headers(target.arch, functions), target.arch)
    shared = [*functions, TUNED_HEADER] if given else functions
    if job.entry == OP_PACKAGE:
        files = op_files(graph, schedule, job.costs, text, shared, needs, given)
    else:
        files = {f"device/{graph.name}_kernel.cpp": text}
        files |= host_files(graph, schedule, job.costs, given)
        files |= project_files(graph, target, shared, needs)
    rows = [r.to_json() for r in tuning.rows] if tuning is not None else ()
    files[f"{graph.name}.json"] = metadata_text(graph, schedule, target, text, needs, rows)
    if job.entry == "torch":
        files |= torch_files(graph, target, job.backward)
    return dict(sorted(files.items()))


if TYPE_CHECKING:
    _conforms: Backend = BACKEND
