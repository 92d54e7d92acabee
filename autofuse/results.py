"""Results of the driver: generated files, and runs with modelled times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from autofuse.base import artifacts
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import from_json_as, json_text, to_json
from autofuse.targets import Target

if TYPE_CHECKING:
    from autofuse.implgraph.cutting.cut import Split
    from autofuse.implgraph.ir.graph import HintGraph
    from autofuse.schedule.axes.result import ScheduleResult

__all__ = ["BuildResult", "Run", "SplitResult", "TimedRun", "graph_file", "read_folder"]


@dataclass(frozen=True, slots=True)
class BuildResult:
    """Result of :func:`autofuse.build`.  Comparison ignores the times.

    Attributes:
        graph: the graph as it was read.
        target: the chip, or the GPU.
        hint: the loop-level graph before scheduling, the first if there are several forms.
        schedule: the forms of the graph with their templates; empty if the backend plans its kernels.
        files: path inside the output folder -> text.
        timings: stage (``read``, ``lower``, ``simplify``, ``schedule``, then those of the backend, for Ascend C
            ``kernel``, ``passes``, ``emit``) -> wall-clock seconds.
    """

    graph: FusionGraph
    target: Target
    hint: HintGraph
    schedule: tuple[ScheduleResult, ...]
    files: Mapping[str, str]
    timings: Mapping[str, float] = field(compare=False)

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return self.graph.name

    @property
    def metadata(self) -> dict[str, Any]:
        """Contents of ``<name>.json``: parameters, tiling keys, workspace, digests."""
        found: dict[str, Any] = json.loads(self.files[f"{self.name}.json"])
        return found

    def write(self, folder: str | Path, *, force: bool = False) -> artifacts.Written:
        """Write all files into ``folder``, or none.

        Args:
            folder: created if missing.
            force: overwrite files that were edited, or that autofuse did not write.

        Returns:
            The files that were created, changed, left unchanged, and removed.

        Raises:
            AutofuseError: AF5005, the folder cannot be written, or a file in it was edited or not written by autofuse;
                ``force`` overwrites such files.
        """
        return artifacts.write_files(self.files, folder, force=force)

    def summary(self) -> dict[str, Any]:
        """Return the build in numbers, ready for JSON."""
        from autofuse.report.build_summary import kernel_roof_row, rejected_rows, template_rows

        return {
            "name": self.graph.label,
            "kernel": self.name,
            "target": self.target.name,
            "roof": kernel_roof_row(self.schedule, self.graph, self.target),
            "experimental": self.target.experimental,
            "checked": self.target.checked,
            "templates": template_rows(self.schedule, self.graph),
            "rejected": rejected_rows(self.schedule, self.graph),
            "files": sorted(self.files),
            "seconds": dict(self.timings),
        }


@dataclass(frozen=True, slots=True)
class SplitResult:
    """Result of :func:`autofuse.build_split`: one kernel, or several with a driver.

    Attributes:
        graph: the graph as it was read.
        target: the chip.
        split: the cuts; None if it is one kernel.
        parts: the kernels, in the order in which they run.
        files: path inside the output folder -> text; for one kernel equal to those of :func:`autofuse.build`.
        timings: stage -> seconds, over all kernels; ``split`` is the search for cuts, ``join`` the driver.
    """

    graph: FusionGraph
    target: Target
    split: Split | None
    parts: tuple[BuildResult, ...]
    files: Mapping[str, str]
    timings: Mapping[str, float] = field(compare=False)

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self.graph.name

    @property
    def cut_after(self) -> tuple[str, ...]:
        """Names of the nodes after which the graph was cut."""
        return () if self.split is None else self.split.cut_after

    def write(self, folder: str | Path, *, force: bool = False) -> artifacts.Written:
        """Write the files, as :meth:`BuildResult.write`."""
        return artifacts.write_files(self.files, folder, force=force)

    def summary(self) -> dict[str, Any]:
        """Return the build in numbers, ready for JSON."""
        passed = () if self.split is None else self.split.passed
        return {
            "name": self.graph.label,
            "kernel": self.name,
            "target": self.target.name,
            "experimental": self.target.experimental,
            "checked": self.target.checked,
            "cut_after": list(self.cut_after),
            "parts": [p.summary() for p in self.parts],
            "passed": [
                {
                    "name": p.tensor.name,
                    "dtype": p.tensor.dtype.name,
                    "shape": [str(e) for e in p.tensor.shape],
                    "maker": p.maker,
                    "users": list(p.users),
                }
                for p in passed
            ],
            "files": sorted(self.files),
            "seconds": dict(self.timings),
        }


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a kernel.

    Attributes:
        outputs: output name -> array; an in-out output is the array that was passed in.
        symbols: sizes of the run, by the names in the user's graph.
        key: tiling key of the template that ran.
        block_dim: number of cores.
        workspace: bytes of GM used between groups.
    """

    outputs: dict[str, npt.NDArray[Any]]
    symbols: dict[str, int]
    key: int
    block_dim: int
    workspace: int

    @property
    def result(self) -> Any:
        """The output, or a tuple of them if there are several, in the order of the graph."""
        found = tuple(self.outputs.values())
        return found[0] if len(found) == 1 else found


@dataclass(frozen=True, slots=True)
class TimedRun:
    """Result of :func:`autofuse.timed`.

    Attributes:
        run: outputs, sizes and tiling key.
        report: modelled times of pipes, instructions and cores, ready for JSON; see ``docs/performance.md``.
    """

    run: Run
    report: Mapping[str, Any]

    def trace(self) -> str:
        """Return the report as a JSON file for Perfetto and other viewers of Chrome traces."""
        from autofuse.report.pages.trace_events import trace_text

        return trace_text(self.report)

    def page(self) -> str:
        """Return the report as a self-contained HTML file."""
        from autofuse.report.pages.trace_page import page_text

        return page_text(self.report)


def graph_file(graph: FusionGraph) -> dict[str, str]:
    """Return the graph as a file, so that a generated folder suffices to load and verify the kernel."""
    return {f"{graph.name}.graph.json": json_text(to_json(graph), indent=1) + "\n"}


def read_folder(folder: Path) -> tuple[FusionGraph, dict[str, str]]:
    """Read the graph and the files, including later edits, of a folder that :meth:`BuildResult.write` wrote.

    Raises:
        AutofuseError: AF1001, the folder holds no kernel, or one that cannot be read.
    """
    files = artifacts.read_files(folder)
    names = [n for n in files if n.endswith(".graph.json") and "/" not in n]
    if len(names) != 1:
        raise AutofuseError.of(
            "AF1001",
            "this folder has no kernel that autofuse built",
            where=Where(path=str(folder)),
            hint=f"autofuse build GRAPH -o {folder} writes one; to use a graph file, give the file",
        )
    try:
        content = json.loads(files[names[0]])
    except (ValueError, RecursionError) as e:
        where = Where(path=str(folder / names[0]))
        raise AutofuseError.of(
            "AF1001", f"the folder's graph is not valid JSON: {e}", where=where
        ) from e
    graph = from_json_as(FusionGraph, content)
    if names[0] != f"{graph.name}.graph.json" or not graph.name.isidentifier():
        text = f"{names[0]} belongs to another kernel, {graph.name}"
        raise AutofuseError.of("AF1001", text, where=Where(path=str(folder)))
    return graph, files
