"""``--flow akg``: build a graph into the files of a flow; a table maps each target to its flow."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofuse import api, frontends
from autofuse.base import artifacts
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.akg.ascend import ascend_keys
from autofuse.clients.akg.cpu import cpu_keys
from autofuse.clients.akg.gpu import gpu_kernels
from autofuse.clients.akg.models import DEFAULT_KEYS, KEY_SETS, json_text
from autofuse.failures import reporting_bugs
from autofuse.frontends.builder import describe
from autofuse.frontends.json_positions import Document
from autofuse.machines.cpu.library import compile_library
from autofuse.targets import (
    Target,
    ascend_chip,
    cpu_names,
    find_target,
    gpu_names,
    gpu_target,
    target_names,
)
from autofuse.targets.spec import unknown_target
from autofuse.tracing import tracing

if TYPE_CHECKING:
    from autofuse.api import TuningLike
    from autofuse.codegen.backends.triton.kernels import Program

__all__ = ["PROCESSES", "TARGET_WORDS", "FlowResult", "build", "find"]

#: AKG's name of a target -> the default target of that kind.
TARGET_WORDS: Mapping[str, str] = {"cpu": "cpu", "gpu": "nvidia-h100", "ascend": api.DEFAULT_TARGET}
#: ``process`` of an info file, the device its kernel runs on -> AKG's name of the target.
PROCESSES: Mapping[str, str] = {"cuda": "gpu", "cpu": "cpu", "aicore": "ascend"}


@dataclass(frozen=True, slots=True)
class FlowResult:
    """Result of :func:`build`.

    Attributes:
        built: result of :func:`autofuse.build` for the graph and the target; ``timings`` includes the later stages.
        kind: kind of target, one of ``TARGET_WORDS``.
        keys: name of the JSON's key set.
        files: path inside the output folder -> text, or the bytes of a library.
        launches: the JSON's entry for each launch; empty if a tiling function decides.
    """

    built: api.BuildResult
    kind: str
    keys: str
    files: Mapping[str, str | bytes]
    launches: Sequence[Mapping[str, Any]] = ()

    @property
    def json_file(self) -> str:
        """Path of the JSON inside the output folder."""
        return _json_file(self.built)

    def write(self, folder: str | Path, *, force: bool = False) -> artifacts.Written:
        """Write the files, as :meth:`autofuse.BuildResult.write` does."""
        return artifacts.write_files(self.files, folder, force=force)

    def with_library(self, digest: str) -> FlowResult:
        """Return a copy whose JSON names the SHA-256 of the library that CMake built from an Ascend project."""
        target = ascend_chip(self.built.target)
        found = ascend_keys(self.built.graph, target, self.keys, digest)
        text = json_text(found, self.keys, self.kind)
        return replace(self, files={**self.files, self.json_file: text})

    def summary(self) -> dict[str, Any]:
        """Return the figures of the build, ready for JSON."""
        return {
            **self.built.summary(),
            "flow": "akg",
            "kind": self.kind,
            "keys": self.keys,
            "json": self.json_file,
            "launches": [dict(row) for row in self.launches],
            "files": sorted(self.files),
        }


def find(word: str) -> tuple[str, Target]:
    """Return the kind of a target and the target, given AKG's name or its own.

    Raises:
        AutofuseError: AF5006, there is no such target; AF5007, it has no flow.
    """
    known = dict.fromkeys((*TARGET_WORDS, *target_names(), *gpu_names(), *cpu_names()))
    if word not in known:
        raise unknown_target(word, tuple(known))
    target = find_target(TARGET_WORDS.get(word, word))
    kind = _KINDS.get((target.backend, getattr(target, "dialect", "")))
    if kind is not None:
        return kind, target
    text = f"AKG has no flow for {target.name}: triton-ascend compiles its kernels"
    hint = f"-t {', '.join(TARGET_WORDS)}, or a target of one of these kinds"
    raise AutofuseError.of("AF5007", text, hint=hint)


def build(
    graph: api.GraphLike,
    *,
    target: str | None = None,
    keys: str = DEFAULT_KEYS,
    ub_bytes: int | None = None,
    tuning: TuningLike | None = None,
) -> FlowResult:
    """Produce the files that AKG produces from a graph, without writing them or compiling an Ascend project.

    Args:
        graph: as for :func:`autofuse.build`.
        target: ``cpu``, ``gpu``, ``ascend``, or the name of a target of one of these kinds; None: the one that
            ``process`` of an info file names, else ``ascend``.
        keys: key set of the JSON, ``upstream`` or ``document``.
        ub_bytes: as for :func:`autofuse.build`, for Ascend chips.
        tuning: as for :func:`autofuse.build`, for GPUs.

    Returns:
        The files, determined by the graph, target, options and versions of autofuse and the compiler.

    Raises:
        AutofuseError: as :func:`autofuse.build`; as :func:`find`; AF1104, ``process`` is unknown; AF5001, the kernel
            compiler is missing; AF5002, it rejects a kernel; AF5003, it crashed or took too long.
        ValueError: there is no such key set.
    """
    if keys not in KEY_SETS:
        raise ValueError(f"keys are {' or '.join(KEY_SETS)}, not {keys!r}")
    if target is None:
        seen: list[Document] = []
        graph = frontends.read(graph, seen.append)
        target = _said_by(seen)
    kind, found = find(target)
    with tracing(found) as trace:
        stages = _Stages(trace.observe)
        built = api.observed(graph, stages, target=found, ub_bytes=ub_bytes, tuning=tuning)
    start = time.perf_counter()
    with reporting_bugs(built.graph, {"flow": "akg", "target": found.name, "keys": keys}):
        result = _FLOWS[kind](built, keys, stages)
    seconds = {**built.timings, "flow": time.perf_counter() - start}
    return replace(result, built=replace(built, timings=seconds))


def _said_by(documents: Sequence[Document]) -> str:
    """Return AKG's name of the target that ``process`` of a graph file selects."""
    for document in documents:
        process = document.value.get("process")
        if isinstance(process, str) and process in PROCESSES:
            return PROCESSES[process]
        if process is not None:
            known = " or ".join(map(repr, PROCESSES))
            text = f"'process' is {describe(process)}, and not {known}"
            hint = f"-t {', -t '.join(TARGET_WORDS)} override the file"
            raise AutofuseError.of("AF1104", text, where=document.where("/process"), hint=hint)
    return "ascend"


@dataclass(slots=True)
class _Stages:
    """An observer that records the results of the stages and forwards them to another observer."""

    other: Callable[[str, str, Any, Any], None] | None
    made: dict[str, Any] = field(default_factory=dict)

    def __call__(self, stage: str, name: str, before: Any, after: Any) -> None:
        if not name:
            self.made[stage] = after
        if self.other is not None:
            self.other(stage, name, before, after)


def _json_file(built: api.BuildResult) -> str:
    return f"kernel_meta/{built.name}.json"


def _finish_cpu(built: api.BuildResult, keys: str, _: _Stages) -> FlowResult:
    library = compile_library(built.files, built.graph).read_bytes()
    found = cpu_keys(built.graph, built.target, keys, artifacts.digest(library))
    made: dict[str, str | bytes] = {
        f"kernel_meta/{built.name}.so": library,
        _json_file(built): json_text(found, keys, "cpu"),
    }
    return FlowResult(built, "cpu", keys, {**built.files, **made})


def _finish_gpu(built: api.BuildResult, keys: str, stages: _Stages) -> FlowResult:
    program: Program = stages.made["plan"]
    kernels = gpu_kernels(built.graph, program, gpu_target(built.target))
    values = kernels.keys(keys)
    text = json_text(values, keys, "gpu")
    files = {**built.files, **kernels.files(), _json_file(built): text}
    return FlowResult(built, "gpu", keys, files, values["autofuse"]["launches"])


def _finish_ascend(built: api.BuildResult, keys: str, _: _Stages) -> FlowResult:
    target = ascend_chip(built.target)
    text = json_text(ascend_keys(built.graph, target, keys), keys, "ascend")
    return FlowResult(built, "ascend", keys, {**built.files, _json_file(built): text})


#: Kind of target -> function from the result of ``build``, the key set and the stages to the flow's result.
_FLOWS: Mapping[str, Callable[[api.BuildResult, str, _Stages], FlowResult]] = {
    "cpu": _finish_cpu,
    "gpu": _finish_gpu,
    "ascend": _finish_ascend,
}
#: (backend, dialect) -> kind of target.
_KINDS = {("cpu", ""): "cpu", ("triton", "cuda"): "gpu", ("ascendc", ""): "ascend"}
