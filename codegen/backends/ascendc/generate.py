"""All files of a kernel from its schedule."""

from __future__ import annotations

from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.device import ENTRIES, kernel_file
from autofuse.codegen.backends.ascendc.emit_cpp import BLOCK_BYTES
from autofuse.codegen.backends.ascendc.host.host import host_files
from autofuse.codegen.backends.ascendc.metadata import metadata_text
from autofuse.codegen.backends.ascendc.project import project_files
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.targets import TargetSpec

__all__ = ["check_entry", "generate"]


def check_entry(entry: str) -> None:
    """Raises AF5007 unless ``entry`` is a way to enter a kernel."""
    if entry not in ENTRIES:
        raise AutofuseError.of(
            "AF5007", f"unknown entry {entry!r}", hint=f"known entries: {', '.join(ENTRIES)}"
        )


#: What ``device_templates`` and ``host_templates`` are written for.
_HEADERS = {"block_bytes": BLOCK_BYTES, "vector_bytes": 256, "repeats_max": 255}


def _check_architecture(target: TargetSpec) -> None:
    """Raises AF5006 for an architecture that the headers are not written for."""
    for name, value in _HEADERS.items():
        found = getattr(target.arch, name)
        if found != value:
            raise AutofuseError.of(
                "AF5006",
                f"no Ascend C can be generated for {target.name}: {name} of architecture {target.arch.name} is {found}",
                hint=f"the device functions are written for {value}",
            )


def generate(
    graph: FusionGraph,
    results: tuple[ScheduleResult, ...],
    target: TargetSpec,
    *,
    entry: str = "launch",
) -> dict[str, str]:
    """Relative path -> text.  A pure function of its arguments and the version of autofuse.

    Args:
        graph: what the schedule was made from.
        results: the schedule.
        target: the chip.
        entry: one of ``codegen.backends.ascendc.device.ENTRIES``.  An op package is launched and built by its own
            project, so the
            launcher and the CMake project are left out.

    Raises:
        AutofuseError: AF5006, the device functions are not written for the chip's architecture.
    """
    _check_architecture(target)
    kernel = kernel_file(graph, results, target, entry)
    files = {f"device/{graph.name}_kernel.cpp": kernel}
    files |= host_files(graph, results, target)
    files |= project_files(graph, target)
    files[f"{graph.name}.json"] = metadata_text(graph, results, target, kernel)
    if entry == "op-package":
        for path in (f"host/{graph.name}_launch.cpp", "CMakeLists.txt", "CMakePresets.json"):
            del files[path]
    return dict(sorted(files.items()))
