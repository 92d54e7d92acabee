"""Subjects of a measurement: the kernel of a graph file, or of a folder as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autofuse import api
from autofuse.base.artifacts import digest
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.edits import edited_files, is_code
from autofuse.codegen.backends.ascendc.tuning import Tilings, given_tilings
from autofuse.codegen.backends.triton.tuning import Tuning
from autofuse.codegen.backends.tuning_file import graph_digest
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import to_json
from autofuse.implgraph.ops.requirements import requirements
from autofuse.machines.gpu.loading import module_file
from autofuse.machines.machine import backend_of
from autofuse.measure.bench.results import Part
from autofuse.report.explanation import explain, sizes_of
from autofuse.report.tuned_choice import tuned_choice
from autofuse.results import BuildResult, read_folder
from autofuse.targets import GpuTarget, TargetSpec, ascend_chip, find_known, find_target, gpu_target

__all__ = ["Choice", "Subject", "chosen", "points", "subject_of"]


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel to be measured.

    Attributes:
        path: the graph file, or the folder.
        graph: its graph.
        files: path inside the output folder -> text, as they run.
        built: the current build of the graph, which the model knows, or None.
        target: its name; empty if unknown.
        edited: True if the text of the kernel differs from the generated one.
    """

    path: str
    graph: FusionGraph
    files: Mapping[str, str]
    built: BuildResult | None
    target: str
    edited: bool = False

    @property
    def is_triton(self) -> bool:
        """True for Triton, False for Ascend C."""
        return module_file(self.graph) in self.files

    def text(self) -> str:
        """Return graph and files as one text, for a worker."""
        return json.dumps({"graph": to_json(self.graph), "files": dict(self.files)})

    def facts(self) -> dict[str, Any]:
        """Return the members of :class:`~autofuse.measure.bench.results.KernelFacts`."""
        own = module_file(self.graph) if self.is_triton else f"device/{self.graph.name}_kernel.cpp"
        text = self.files.get(own)
        return {
            "name": self.graph.label,
            "target": self.target or None,
            "graph_sha256": graph_digest(self.graph),
            "kernel_sha256": None if text is None else digest(text),
            "edited": self.edited,
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """The model's choice and time for a kernel at some sizes.

    Attributes:
        us: modelled microseconds; None if the model has none.
        key: the chosen tiling key; None for kernels without keys.
        parts: the choice for each group, or for each kernel of a module.
    """

    us: float | None = None
    key: int | None = None
    parts: tuple[Part, ...] = ()


def subject_of(path: Path, target: str, tuning: Tuning | Tilings | None = None) -> Subject:
    """Return the kernel of a graph file, or of a folder that ``autofuse build`` wrote.

    Args:
        path: the file or the folder.
        target: the target of a graph file's kernel; for a folder of Triton kernels, the target of the model.
        tuning: tilings or blocks of the kernels of a graph file.

    Raises:
        AutofuseError: as :func:`autofuse.build`; AF1001, the folder has no kernel; AF5007, a tuning file is given for a
            folder.
    """
    if not path.is_dir():
        built = api.build(path, target=target, tuning=tuning)
        return Subject(str(path), built.graph, built.files, built, built.target.name)
    if tuning is not None:
        text = "a tuning file is for a graph file: the kernel of a folder already has its blocks"
        raise AutofuseError.of("AF5007", text, hint="leave out --tuning")
    graph, files = read_folder(path)
    name = target
    try:
        if module_file(graph) in files:
            spec = find_target(name)
        else:
            # A name from the files must not open a target file.
            name = _target_in(files, graph)
            spec = find_known(name)
        fits = spec.backend == backend_of(files, graph)
        again = api.build(graph, target=spec) if fits else None
    except AutofuseError:
        # It runs as it is; only the model's time is missing.
        again = None
    edited = any(is_code(f.name) for f in edited_files(path))
    return Subject(str(path), graph, files, again, name if again else "", edited)


def _target_in(files: Mapping[str, str], graph: FusionGraph) -> str:
    """Return the target named in the metadata of an Ascend C kernel."""
    try:
        return str(json.loads(files[f"{graph.name}.json"])["target"])
    except (KeyError, TypeError, ValueError):
        return ""


def points(graph: FusionGraph, shapes: Sequence[Mapping[str, int]]) -> list[dict[str, int]]:
    """Return the sizes by symbol for each requested set of sizes; the typical ones by default.

    Args:
        graph: the graph.
        shapes: sizes by the user's names; missing ones are typical.

    Raises:
        AutofuseError: AF1005, AF5007, a name is not a symbol, or the sizes are invalid for the graph.
    """
    found: list[dict[str, int]] = []
    for given in shapes or [{}]:
        sizes = sizes_of(graph.symbols, given)
        for r in requirements(graph):
            if not r.holds(sizes):
                hint = "a kernel rejects these sizes too"
                raise AutofuseError.of("AF5007", r.text, hint=hint)
        if sizes not in found:
            found.append(sizes)
    return found


def chosen(
    built: BuildResult | None, sizes: Mapping[str, int], tuning: Tuning | Tilings | None = None
) -> Choice:
    """Return the model's choice and time for a kernel at sizes by symbol; not a measurement."""
    if built is None:
        return Choice()
    choose = _CHOSEN.get(built.target.backend)
    return Choice() if choose is None else choose(built, sizes, tuning)


def _of_chip(
    built: BuildResult, sizes: Mapping[str, int], tuning: Tuning | Tilings | None
) -> Choice:
    target = ascend_chip(built.target)
    given = tuning if isinstance(tuning, Tilings) else None
    found = None if given is None else _given(built, target, sizes, given)
    return found or _templates(built, target, sizes)


def _of_card(
    built: BuildResult, sizes: Mapping[str, int], tuning: Tuning | Tilings | None
) -> Choice:
    blocks = tuning if isinstance(tuning, Tuning) else None
    return _kernels(built, gpu_target(built.target), sizes, blocks)


#: Backend of the target -> function.
_CHOSEN: Mapping[str, Callable[..., Choice]] = {"ascendc": _of_chip, "triton": _of_card}


def _given(
    built: BuildResult, target: TargetSpec, sizes: Mapping[str, int], tuning: Tilings
) -> Choice | None:
    """Return the choice of a tuning file; None if the search decides."""
    rows = given_tilings(tuning, built.graph)
    found = tuned_choice(rows, built.schedule, target, sizes)
    if found is None:
        return None
    variants = {i.name: i.variant for r in built.schedule for g in r.groups for i in g.impls}
    parts = [
        Part(
            name=g["template"],
            template=variants[g["template"]],
            tile={k: int(g[k]) for k in ("tile", "tiles_per_core", "cores")},
        )
        for g in found["groups"]
    ]
    return Choice(found["total_us"], found["key"], tuple(parts))


def _templates(built: BuildResult, target: TargetSpec, sizes: Mapping[str, int]) -> Choice:
    found = explain(built.graph.label, built.schedule, target, sizes, built.graph)
    parts = [
        Part(
            name=t["function"],
            template=t["template"],
            tile={k: int(t[k]) for k in ("tile", "tiles_per_core", "cores")},
        )
        for r in found["results"]
        if r["chosen"]
        for g in r["groups"]
        for t in g["templates"]
        if t["chosen"] and t["legal"]
    ]
    return Choice(found["total_us"], found["key"], tuple(parts))


def _kernels(
    built: BuildResult, target: GpuTarget, sizes: Mapping[str, int], tuning: Tuning | None
) -> Choice:
    from autofuse.codegen.backends.triton.cost import modelled
    from autofuse.codegen.backends.triton.plan import plan
    from autofuse.codegen.backends.triton.summary import plan_summary

    program = plan(built.graph, built.hint, target, tuning)
    parts = [
        Part(
            name=k["name"],
            template=k["form"],
            tile={
                "rows": k["block"][0],
                "cols": k["block"][1],
                "cluster": k["cluster"],
                "warps": k["warps"],
                "programs": k["programs"],
            },
        )
        for k in plan_summary(program, sizes)
        if k["launched"]
    ]
    us = None
    if target.dialect == "cuda":
        us = sum(t.us for t in modelled(program, target, sizes))
    return Choice(us, None, tuple(parts))
