"""Runs and verifies a graph of several kernels on the CPU twin.

Fast mode calls the generated driver, as a program on the chip would. Checked mode runs the kernels one by one, each
with the template that the driver chose, because the twin checks one launch at a time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.codegen.backends.ascendc.host.driver import SCHEMA, part_folder, part_unit
from autofuse.implgraph.cutting.cut import INPUT, OUTPUT, PASSED
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import from_json_as
from autofuse.machines.twin.oracle.compare import Comparison
from autofuse.machines.twin.oracle.data import POISON
from autofuse.machines.twin.run.compile import QUICK, compile_kernel, compile_split, level
from autofuse.machines.twin.run.kernel import Array, TwinKernel, chip_of, hand_back
from autofuse.machines.twin.verify.verify import (
    Case,
    VerifyReport,
    unpack,
    verify_kernel,
    verify_with,
)
from autofuse.results import Run
from autofuse.targets import TargetSpec

__all__ = [
    "VERIFY_JOB",
    "PartFiles",
    "SplitKernel",
    "load_split",
    "read_parts",
    "verify_job",
    "verify_split",
]

VERIFY_JOB = "autofuse.machines.twin.verify.split:verify_job"


@dataclass(frozen=True, slots=True)
class PartFiles:
    """One kernel of a folder with several.

    Attributes:
        graph: its graph.
        files: path inside its folder -> text.
        sources: kind and index of a place for every input, as in :class:`autofuse.implgraph.cutting.cut.Place`.
        targets: kind and index of a place for every output.
        keys: number of its tiling keys.
        radix: radix of its digit in the tiling key of the whole; 0 if it has none.
    """

    graph: FusionGraph
    files: Mapping[str, str]
    sources: tuple[tuple[str, int], ...]
    targets: tuple[tuple[str, int], ...]
    keys: int
    radix: int


def read_parts(files: Mapping[str, str], name: str) -> tuple[PartFiles, ...]:
    """Read the kernels of the graph ``name`` from the files of its folder; empty if it is one kernel.

    Raises:
        AutofuseError: AF1001, the manifest is not one of autofuse.
    """
    text = files.get(f"{name}.split.json")
    if text is None:
        return ()
    try:
        manifest = json.loads(text)
        if manifest["schema"] != SCHEMA:
            raise ValueError(f"the schema is {manifest['schema']!r}, not {SCHEMA!r}")
        return _consistent(tuple(_part(files, row) for row in manifest["parts"]), files, name)
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise AutofuseError.of(
            "AF1001",
            f"{name}.split.json is not an autofuse manifest: {e!r}",
            where=Where(path=f"{name}.split.json"),
            hint="build it again",
        ) from e


def _part(files: Mapping[str, str], row: Mapping[str, Any]) -> PartFiles:
    name = str(row["name"])
    prefix = f"{part_folder(name)}/"
    own = {
        p.removeprefix(prefix): text
        for p, text in files.items()
        if p.startswith(prefix) and p != f"{prefix}manifest.json"
    }
    graph = from_json_as(FusionGraph, json.loads(own[f"{name}.graph.json"]))
    if graph.name != name or not name.isidentifier():
        raise ValueError(f"the name {name!r}")
    return PartFiles(
        graph,
        own,
        tuple(_place(p) for p in row["inputs"]),
        tuple(_place(p) for p in row["outputs"]),
        int(row["tilingKeys"]),
        int(row["keyRadix"]),
    )


def _consistent(
    parts: tuple[PartFiles, ...], files: Mapping[str, str], name: str
) -> tuple[PartFiles, ...]:
    """Return the parts; raise ValueError if one reads a missing tensor, or an output is not written."""
    whole = from_json_as(FusionGraph, json.loads(files[f"{name}.graph.json"]))
    known = {(INPUT, i) for i in range(len(whole.inputs))}
    for p in parts:
        if p.keys < 1 or p.radix < 0:
            raise ValueError(f"the tiling keys of {p.graph.name}")
        if len(p.sources) != len(p.graph.inputs) or len(p.targets) != len(p.graph.outputs):
            raise ValueError(f"the parameters of {p.graph.name}")
        if not known.issuperset(p.sources) or not known.isdisjoint(p.targets):
            raise ValueError(f"what {p.graph.name} reads and writes")
        known.update(p.targets)
    if not known.issuperset((OUTPUT, k) for k in range(len(whole.outputs))) or not parts:
        raise ValueError("an output that no part writes")
    return parts


def _place(row: Mapping[str, Any]) -> tuple[str, int]:
    (kind,) = (k for k in (INPUT, OUTPUT, PASSED) if k in row)
    return kind, int(row[kind])


class SplitKernel(TwinKernel):
    """Several kernels and their driver, called like one kernel.

    Args:
        path: the library from ``compile_split``.
        graph: the whole graph.
        parts: the kernels.
        checked: with ``check="all"`` a separate library per kernel, in the same order.
        check: as for :class:`~autofuse.machines.twin.run.kernel.TwinKernel`.
        check_seed: as there.
        chip: as there.
    """

    def __init__(
        self,
        path: Path,
        graph: FusionGraph,
        parts: Sequence[PartFiles],
        checked: Sequence[Path] = (),
        *,
        check: str = "fast",
        check_seed: int = 0,
        chip: TargetSpec | None = None,
    ) -> None:
        options: dict[str, Any] = {
            "check": check,
            "check_seed": check_seed,
            "chip": chip,
        }
        super().__init__(path, graph, **options)
        self.parts = tuple(parts)
        self._kernels = [
            TwinKernel(library, p.graph, **options)
            for library, p in zip(checked, parts, strict=check == "all")
        ]

    def covering_keys(self) -> list[int]:
        """Return tiling keys that together cover every template of every kernel."""
        most = max(p.keys for p in self.parts)
        return [sum(k % p.keys * p.radix for p in self.parts) for k in range(most)]

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        symbols: Mapping[str, int] | None = None,
        key: int | None = None,
        cores: int = 0,
        poison: int = POISON[0],
    ) -> Run:
        """Run all kernels; see :meth:`TwinKernel.run <autofuse.machines.twin.run.kernel.TwinKernel.run>`."""
        if self.check == "fast":
            return super().run(inputs, symbols=symbols, key=key, cores=cores, poison=poison)
        arrays, sizes = self._arguments(inputs, symbols or {})
        key, cores = self._choice(key, cores)
        self._check_shapes(sizes)
        tiling = self.library.tiling([sizes[s.name] for s in self.graph.symbols], key, cores)
        values: dict[tuple[str, int], Array] = {
            (INPUT, i): arrays[name] for i, name in enumerate(self.graph.inputs)
        }
        for p, kernel in zip(self.parts, self._kernels, strict=True):
            ran = kernel.run(
                {x: values[at] for x, at in zip(p.graph.inputs, p.sources, strict=True)},
                symbols={s.name: sizes[s.name] for s in p.graph.symbols},
                key=tiling.key // p.radix % p.keys if p.radix else None,
                cores=cores,
                poison=poison,
            )
            for o, at in zip(p.graph.outputs, p.targets, strict=True):
                values[at] = ran.outputs[o.name]
        outputs = {o.name: values[OUTPUT, k] for k, o in enumerate(self.graph.outputs)}
        hand_back(self.graph, outputs, inputs)
        return Run(outputs, dict(sizes), tiling.key, tiling.block_dim, tiling.workspace)


def load_split(
    files: Mapping[str, str],
    graph: FusionGraph,
    parts: Sequence[PartFiles],
    *,
    check: str = "fast",
    check_seed: int = 0,
    opt: str | None = None,
) -> SplitKernel:
    """Compile a graph that was split.

    Args:
        files: path inside the output folder -> text.
        graph: the whole graph.
        parts: the result of :func:`read_parts` for the files.
        check: as for :class:`~autofuse.machines.twin.run.kernel.TwinKernel`.
        check_seed: as there.
        opt: as for :func:`~autofuse.machines.twin.run.compile.compile_kernel`.

    Raises:
        AutofuseError: AF5001 or AF5002, it cannot be compiled.
    """
    units = {p.graph.name: (p.files, part_unit(p.graph.name, _sources(p.files))) for p in parts}
    library = compile_split(files, graph.name, units, opt=opt)
    checked = (
        [compile_kernel(p.files, p.graph.name, opt=opt, checked=True) for p in parts]
        if check == "all"
        else []
    )
    chip = (
        chip_of(parts[0].files, parts[0].graph.name) if parts else None
    )  # all parts have one chip
    return SplitKernel(
        library, graph, parts, checked, check=check, check_seed=check_seed, chip=chip
    )


def _sources(files: Mapping[str, str]) -> list[str]:
    """Return the kernel, then the host files."""
    found = [p for p in files if p.endswith(".cpp")]
    return sorted(found, key=lambda p: (PurePosixPath(p).parts[0] != "device", p))


def verify_split(
    files: Mapping[str, str],
    graph: FusionGraph,
    parts: Sequence[PartFiles],
    *,
    bindings: Sequence[Mapping[str, int]] | None = None,
    count: int = 6,
    seed: int = 0,
    given: Mapping[str, Array] | None = None,
    check: str = "all",
    check_seed: int = 0,
    opt: str | None = None,
) -> VerifyReport:
    """Compare the whole, run by its driver, and every single kernel with their references.

    The whole runs with the driver's choice of templates, and with keys that cover every template of every kernel. The
    kernels run one by one with random data and every tiling key, checked according to ``check``.

    Args:
        files: path inside the output folder -> text.
        graph: the whole graph.
        parts: its kernels.
        bindings: sizes to try; None: chosen.
        count: number of sizes to try when none are given.
        seed: of sizes and data.
        given: arrays for inputs of the whole that are not random.
        check: for the kernels, as for :func:`~autofuse.machines.twin.verify.verify.verify_kernel`.
        check_seed: as there.
        opt: as there.

    Returns:
        One report. Outputs and findings of parts are prefixed with the name of the part.

    Raises:
        AutofuseError: AF5001 or AF5002, it cannot be compiled.
    """
    opt = opt or level(QUICK)
    kernel = load_split(files, graph, parts, opt=opt)
    whole = verify_with(
        kernel,
        bindings=bindings,
        count=count,
        seed=seed,
        given=given,
        keys=kernel.covering_keys(),
        flushes=kernel.flushes,
    )
    cases, found = list(whole.cases), list(whole.diagnostics)
    compiled, took = whole.compile_seconds, whole.seconds
    for p in parts:
        names = {s.name for s in p.graph.symbols}
        own = None
        if bindings is not None:
            cut = [tuple((k, v) for k, v in b.items() if k in names) for b in bindings]
            own = [dict(b) for b in dict.fromkeys(cut)]
        report = verify_kernel(
            p.files,
            p.graph,
            bindings=own,
            count=count,
            seed=seed,
            check=check,
            check_seed=check_seed,
            opt=opt,
        )
        cases += [_of_part(c, p.graph.name) for c in report.cases]
        found += [replace(d, message=f"{p.graph.name}: {d.message}") for d in report.diagnostics]
        if not report.passed and not found:
            found.append(Diagnostic("AF5003", f"{p.graph.name}: nothing ran"))
        compiled, took = compiled + report.compile_seconds, took + report.seconds
    return VerifyReport(graph.label, seed, tuple(cases), tuple(found), compiled, took)


def verify_job(payload: str) -> dict[str, Any]:
    """Run :func:`verify_split` in a worker."""
    files, graph, options = unpack(payload)
    return verify_split(files, graph, read_parts(files, graph.name), **options).to_json()


def _of_part(c: Case, part: str) -> Case:
    outputs: list[Comparison] = [replace(o, output=f"{part}.{o.output}") for o in c.outputs]
    return replace(c, outputs=tuple(outputs))
