"""The driver: a graph in, files out, and what can be done with them.

========== ============================ ====================== ==============================
stage      input                        output                 module
========== ============================ ====================== ==============================
read       text of a graph file         FusionGraph            autofuse.frontends
lower      FusionGraph, TargetSpec      HintGraph, ...         autofuse.implgraph.lowering.lowering
simplify   HintGraph                    HintGraph              autofuse.implgraph.simplify.canonicalise
schedule   HintGraph, ..., TargetSpec   ScheduleResult, ...    autofuse.schedule.scheduler
generate   ScheduleResult, ...          files: path -> text    autofuse.codegen.backends.ascendc.generate
========== ============================ ====================== ==============================

The output of a stage is the input of the next one.  :func:`build` is these five calls, timed.
:func:`build_split` does this for every part of a graph that is too much for one kernel.  What is
built can be written (:meth:`BuildResult.write`), called on NumPy arrays (:func:`load`) and compared
with NumPy (:func:`verify`), or run with modelled times (:func:`timed`); the last three use the CPU
twin.  There is no global state: threads may build at once.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from autofuse.base import artifacts, knobs
from autofuse.base.arguments import integer, symbol_sizes
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.failures import internal_error, reporting_bugs
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.results import BuildResult, SplitResult, TimedRun
from autofuse.targets import TargetSpec, load_target

if TYPE_CHECKING:
    from autofuse.implgraph.cutting.cut import Split
    from autofuse.implgraph.cutting.split import Uncut
    from autofuse.implgraph.ir.graph import HintGraph, ImplGraph
    from autofuse.schedule.axes.result import ScheduleResult
    from autofuse.schedule.cost.costs import Costs
    from autofuse.twin.run.kernel import TwinKernel
    from autofuse.twin.verify.verify import VerifyReport

__all__ = [
    "DEFAULT_TARGET",
    "BuildResult",
    "GraphLike",
    "SplitResult",
    "TimedRun",
    "build",
    "build_split",
    "hint_of",
    "internal_error",
    "load",
    "read",
    "reporting_bugs",
    "timed",
    "verify",
]

DEFAULT_TARGET = "ascend910b1"

#: Why a graph is refused before code is made, where smaller graphs may not be.
_PERHAPS_TOO_MUCH = frozenset(
    {"AF2101", "AF2102", "AF2103", "AF3001", "AF3002", "AF3003", "AF3004"}
)
#: Nodes that a hint names at most.
_NAMED_CUTS = 8

#: A graph, the path of a graph file, its text, or its text as a dict.
GraphLike: TypeAlias = "FusionGraph | Path | str | Mapping[str, Any]"


def build(
    graph: GraphLike,
    *,
    target: str | TargetSpec = DEFAULT_TARGET,
    entry: str = "launch",
    ub_bytes: int | None = None,
    verify_ir: bool | None = None,
) -> BuildResult:
    """Generate the kernel of a graph: the text of all files, nothing is compiled or written.

    The files depend on the graph, the target, the options and the version alone.  Threads may build at once.

    Args:
        graph: a FusionGraph, the path of a graph file, or the text of one (as text or as a dict).
        target: the chip, by name (``autofuse.target_names()``) or as ``autofuse.load_target`` gives it.
        entry: how the kernel gets its tiling data: ``launch``, by value (``<<<>>>``); ``op-package``, in GM, with
            ``TILING_KEY_IS``, for a custom-op project, which brings its own launcher and build.
        ub_bytes: bytes of UB that the kernel may use, at most what the chip has for it; None: all of it.
        verify_ir: check the IR after every stage; by default only if AUTOFUSE_DEBUG is set.

    Raises:
        AutofuseError: everything that is wrong with the graph (AF1xxx reading, AF2xxx lowering, AF3xxx scheduling);
            AF5006 the target is not known; AF5007 an option is out of range; AF9001 if autofuse itself failed.  Where
            cutting the graph would help, ``cut_after`` of the diagnostic says where.
    """
    spec, check_ir = _machine(target, ub_bytes, verify_ir)
    timings: dict[str, float] = {}
    with reporting_bugs(graph, {"target": spec.name, "entry": entry, "ub_bytes": ub_bytes}):
        from autofuse.codegen.backends.ascendc.generate import check_entry

        check_entry(entry)
        with _timed(timings, "read"):
            fusion = read(graph)
        try:
            return _built(fusion, spec, entry, check_ir, timings)
        except AutofuseError as e:
            raise _with_cuts(e, fusion, spec) from None


def build_split(
    graph: GraphLike,
    *,
    target: str | TargetSpec = DEFAULT_TARGET,
    entry: str = "launch",
    ub_bytes: int | None = None,
    verify_ir: bool | None = None,
    cut_after: Sequence[str] | None = None,
) -> SplitResult:
    """Generate the kernels of a graph: one if that is enough, else as few as possible, and a driver.

    Of splits into as few kernels, the one is taken whose kernels read and write the fewest bytes of GM.  A part is a
    run of nodes in the order of the graph; ``docs/split.md`` has the details.

    Args:
        graph: as for :func:`build`.
        target: as there.
        entry: as there; more than one kernel is possible with ``launch`` only.
        ub_bytes: as there, for every kernel.
        verify_ir: as there.
        cut_after: names of nodes after which to cut, rather than where autofuse finds it best.

    Raises:
        AutofuseError: as :func:`build`.  If no cut helps, the diagnostics are those of every node that cannot be built
            alone either.
        TypeError: ``cut_after`` is one text.
    """
    if isinstance(cut_after, str):
        raise TypeError("cut_after is a sequence of names, not one text")
    spec, check_ir = _machine(target, ub_bytes, verify_ir)
    timings: dict[str, float] = {}
    with reporting_bugs(graph, {"target": spec.name, "ub_bytes": ub_bytes, "split": True}):
        from autofuse.codegen.backends.ascendc.generate import check_entry
        from autofuse.codegen.backends.ascendc.host.driver import (
            check_split_entry,
            driver_files,
            part_folder,
        )
        from autofuse.implgraph.cutting.split import Uncut
        from autofuse.implgraph.cutting.split import cut_after as cut_at

        check_entry(entry)
        with _timed(timings, "read"):
            fusion = read(graph)
        found: Split | Uncut
        if cut_after:
            found = cut_at(fusion, cut_after)
        else:
            try:
                whole = _built(fusion, spec, entry, check_ir, timings)
                return SplitResult(fusion, spec, None, (whole,), whole.files, timings)
            except AutofuseError as e:
                if not _perhaps_too_much(e, fusion):
                    raise
            with _timed(timings, "split"):
                found = _find_split(fusion, spec, every=True)
        if isinstance(found, Uncut):
            raise _left_out(found)
        check_split_entry(entry if len(found.parts) > 1 else "launch")
        parts = tuple(_built(p.graph, spec, entry, check_ir, {}) for p in found.parts)
        for p in parts:
            for stage, seconds in p.timings.items():
                timings[stage] = timings.get(stage, 0.0) + seconds
        if len(parts) == 1:
            # Without nodes that no output needs, it is one kernel.
            return SplitResult(fusion, spec, None, parts, parts[0].files, timings)
        with _timed(timings, "generate"):
            files = driver_files(found, [p.schedule for p in parts], spec)
            files[_graph_file(fusion.name)] = _graph_text(fusion)
            for p in parts:
                own = {**p.files, artifacts.MANIFEST: artifacts.manifest_text(p.files)}
                files |= {f"{part_folder(p.name)}/{name}": text for name, text in own.items()}
    return SplitResult(fusion, spec, found, parts, dict(sorted(files.items())), timings)


def _machine(
    target: str | TargetSpec, ub_bytes: int | None, verify_ir: bool | None
) -> tuple[TargetSpec, bool]:
    """The chip, and whether to check the IR."""
    spec = target if isinstance(target, TargetSpec) else load_target(target)
    if ub_bytes is not None:
        spec = spec.with_ub(ub_bytes)
    return spec, knobs.DEBUG.get() if verify_ir is None else verify_ir


def _built(
    fusion: FusionGraph, spec: TargetSpec, entry: str, check_ir: bool, timings: dict[str, float]
) -> BuildResult:
    """The stages after reading; their times are added to ``timings``."""
    from autofuse.codegen.backends.ascendc.generate import generate
    from autofuse.schedule.cost.costs import Costs

    costs = Costs(spec)
    results = _scheduled(fusion, spec, check_ir, timings, costs)
    _check(check_ir, *(i for r in results for g in r.groups for i in g.impls))
    if check_ir:
        from autofuse.codegen.verification import check_schedule

        check_schedule(fusion, results, spec)
    with _timed(timings, "generate"):
        files = generate(fusion, results, spec, entry=entry, costs=costs)
        # So that a folder of generated files is enough to load and verify the kernel.
        files[_graph_file(fusion.name)] = _graph_text(fusion)
    return BuildResult(fusion, spec, results[0].hint, results, files, timings)


def _scheduled(
    fusion: FusionGraph,
    spec: TargetSpec,
    check_ir: bool,
    timings: dict[str, float],
    costs: Costs | None = None,
) -> tuple[ScheduleResult, ...]:
    """The stages up to the schedule."""
    from autofuse.implgraph.lowering.lowering import lower_all
    from autofuse.implgraph.simplify.canonicalise import canonicalise
    from autofuse.schedule.scheduler import schedule_all

    def lowered(columns: bool) -> tuple[HintGraph, ...]:
        with _timed(timings, "lower"):
            hints = lower_all(fusion, spec, columns=columns)
        _check(check_ir, *hints)
        with _timed(timings, "simplify"):
            hints = tuple(canonicalise(h) for h in hints)
        _check(check_ir, *hints)
        return hints

    hints = lowered(True)
    try:
        with _timed(timings, "schedule"):
            return schedule_all(hints, spec, costs)
    except AutofuseError:
        # Pieces of short rows that are too much together may be possible one by one.  Of known sizes both ways are
        # among the forms.
        apart = lowered(False) if fusion.symbols else hints
        if apart == hints:
            raise
    with _timed(timings, "schedule"):
        return schedule_all(apart, spec, costs)


# what is too much for one kernel --------------------------------------------------------------


def _find_split(
    graph: FusionGraph, spec: TargetSpec, *, every: bool, suspects: Sequence[str] = ()
) -> Split | Uncut:
    from autofuse.implgraph.cutting.split import find_split

    def refusal(part: FusionGraph) -> AutofuseError | None:
        try:
            _scheduled(part, spec, False, {})
        except AutofuseError as e:
            return e
        return None

    return find_split(graph, refusal, every=every, suspects=suspects)


def _perhaps_too_much(error: AutofuseError, graph: FusionGraph) -> bool:
    from autofuse.implgraph.cutting.cut import needed_nodes

    several = len(needed_nodes(graph)) > 1
    return several and all(d.code in _PERHAPS_TOO_MUCH for d in error.diagnostics)


def _with_cuts(error: AutofuseError, graph: FusionGraph, spec: TargetSpec) -> AutofuseError:
    """The same error, with the smallest split that would work where there is one."""
    from autofuse.implgraph.cutting.split import Uncut

    if not _perhaps_too_much(error, graph):
        return error
    named = [d.where.node for d in error.diagnostics]
    found = _find_split(graph, spec, every=False, suspects=named)
    if isinstance(found, Uncut):
        name = found.obstacles[0].node.name
        note = f"no cut helps: node {name} cannot be built alone either"
        return AutofuseError(
            d if d.where.node == name else replace(d, notes=(*d.notes, note))
            for d in error.diagnostics
        )
    cuts = found.cut_after
    if not cuts:
        hint = "leave out the nodes that no output needs"
    else:
        names = ", ".join(cuts[:_NAMED_CUTS]) + (", ..." if len(cuts) > _NAMED_CUTS else "")
        place = f"node {names}" if len(cuts) == 1 else f"nodes {names}"
        hint = f"cut after {place} ({len(cuts) + 1} kernels); autofuse build --split does that"
    return AutofuseError(replace(d, hint=hint, cut_after=cuts) for d in error.diagnostics)


def _left_out(found: Uncut) -> AutofuseError:
    """The errors of all nodes that no kernel can have."""
    kernels = f"{found.kernels} kernel{'s' if found.kernels != 1 else ''}"
    note = f"no cut helps; the other nodes of the graph make {kernels}"
    out = []
    for o in found.obstacles:
        for d in o.error.diagnostics:
            where = replace(d.where, node=o.node.name, pointer=d.where.pointer or o.node.origin)
            out.append(replace(d, where=where, notes=(*d.notes, note)))
    return AutofuseError(out)


def read(graph: GraphLike) -> FusionGraph:
    """The graph of anything that :func:`build` takes, checked, with dtype and shape of every tensor.

    Args:
        graph: a path (autofuse.graph/1, MindSpore AKG info, ONNX: the content says which), a text that begins with
            ``{`` or ``[``, the same as a dict, or a FusionGraph, which is returned as it is.

    Raises:
        AutofuseError: AF1xxx, every error of the text at once, with line, column and JSON pointer.
    """
    from autofuse.frontends import parse_graph, read_graph

    if isinstance(graph, FusionGraph):
        return graph
    if isinstance(graph, Mapping):
        try:
            text = json.dumps(dict(graph))
        except (TypeError, ValueError, RecursionError) as e:
            raise AutofuseError.of(
                "AF1103",
                f"the graph cannot be written as JSON: {e}",
                hint="lists, dicts, texts, numbers and booleans of Python; no arrays",
            ) from None
        return parse_graph(text)
    if isinstance(graph, str) and graph.lstrip()[:1] in ("{", "["):
        return parse_graph(graph)
    if isinstance(graph, str | os.PathLike):
        return read_graph(graph)
    raise AutofuseError.of(
        "AF1103",
        f"a graph cannot be read from an object of type {type(graph).__name__}",
        hint="give a path, the text of a graph file, the same as a dict, or what autofuse.read returned",
    )


def load(
    built: BuildResult | SplitResult | str | Path, *, check: str = "fast", check_seed: int = 0
) -> TwinKernel:
    """The kernel, or the kernels and their driver, as a function on NumPy arrays, running on the CPU twin.

    Args:
        built: what :func:`build` or :func:`build_split` returned, or a folder that it was written to.
        check: ``all`` looks for races, uninitialised data and elements written twice at every call,
            which takes several times as long; ``fast`` does not.
        check_seed: with ``all``, 0 executes instructions in program order, any other number in an
            order that a chip may choose, as unfavourable as the number makes it.

    Returns:
        A callable: arrays in the order of the graph's inputs, or by name; it returns the output, or
        a tuple of them.  The kernel runs in this process, and several threads may call it at once.  Compiling
        takes g++ seconds the first time; the library stays in the cache folder (``AUTOFUSE_CACHE_DIR``).  It is
        unmapped when nothing refers to the callable any more.

    Raises:
        AutofuseError: AF5001 no compiler, AF5002 the code does not compile, AF5009 the cache folder cannot be used,
            AF1001 the folder does not hold a kernel.
        ValueError: ``check`` is none of the two.
    """
    from autofuse.twin.run.compile import compile_kernel
    from autofuse.twin.run.kernel import TwinKernel, usable_ub
    from autofuse.twin.verify.split import load_split, read_parts

    if isinstance(built, BuildResult | SplitResult):
        graph, files = built.graph, built.files
    else:
        graph, files = _read_folder(Path(built))
    parts = read_parts(files, graph.name)
    if parts:
        return load_split(files, graph, parts, check=check, check_seed=check_seed)
    library = compile_kernel(files, graph.name, checked=check == "all")
    ub_bytes = usable_ub(files, graph.name)
    return TwinKernel(library, graph, check=check, check_seed=check_seed, ub_bytes=ub_bytes)


def timed(
    built: BuildResult | SplitResult | str | Path,
    inputs: Mapping[str, Any],
    *,
    symbols: Mapping[str, int] | None = None,
    key: int | None = None,
    check: str = "fast",
    check_seed: int = 0,
) -> TimedRun:
    """Run a kernel once on the CPU twin, with the times that its instructions take by the model of its chip.

    Args:
        built: what :func:`build` returned, or a folder that it was written to; a graph of several kernels is refused.
        inputs: by name, an array per input with the dtype and shape of the graph, a number for a scalar.
        symbols: sizes that do not follow from the shapes.
        key: the tiling key to take; None: the tiling function chooses.
        check: as for :func:`load`.
        check_seed: as there.

    Returns:
        Outputs, and modelled times in cycles and microseconds; the times are no measurement of a chip.

    Raises:
        AutofuseError: as for :func:`load`, and for a call of what it returns; AF5007 several kernels.
    """
    from autofuse.twin.run.compile import compile_kernel
    from autofuse.twin.run.kernel import TwinKernel
    from autofuse.twin.timed.timed import timed_run
    from autofuse.twin.verify.split import read_parts

    if isinstance(built, BuildResult | SplitResult):
        graph, files, chip = built.graph, built.files, built.target
    else:
        graph, files = _read_folder(Path(built))
        chip = None
    if read_parts(files, graph.name):
        raise AutofuseError.of(
            "AF5007",
            f"{graph.name} is several kernels: timed mode takes one at a time",
            hint="autofuse build --split writes each into a folder under parts/, which run takes",
        )
    # The name comes with the files; load_target accepts names of chips only.
    chip = chip or load_target(str(json.loads(files[f"{graph.name}.json"])["target"]))
    library = compile_kernel(files, graph.name, checked=True)
    kernel = TwinKernel(library, graph, check=check, check_seed=check_seed, ub_bytes=chip.ub_usable)
    return TimedRun(*timed_run(kernel, inputs, chip, symbols=symbols, key=key))


def verify(
    graph: BuildResult | SplitResult | GraphLike,
    *,
    shapes: int | Sequence[Mapping[str, int]] = 6,
    seed: int = 0,
    target: str | TargetSpec = DEFAULT_TARGET,
    check: str = "all",
    check_seed: int = 0,
) -> VerifyReport:
    """Compile for the CPU twin, run every tiling key on random data, compare with NumPy.

    The kernel runs in another process, which may take ``AUTOFUSE_VERIFY_TIMEOUT`` seconds and
    ``AUTOFUSE_VERIFY_MEMORY_MB`` MiB, so that a kernel that hangs or crashes is a finding as well.

    Args:
        graph: what :func:`build` or :func:`build_split` returned, or what they take.
        shapes: sizes of the symbols to try (one dict per shape, symbol -> elements), or how many to choose.
        seed: of sizes and data.
        target: the chip, if the graph is not built yet.
        check: as for :func:`load`, but ``all`` unless said otherwise.
        check_seed: as for :func:`load`.

    Returns:
        The report; a wrong kernel is a finding in it, not an exception.

    Raises:
        AutofuseError: the graph cannot be built (as :func:`build`), or the kernel not be compiled (as :func:`load`);
            AF5007 sizes are not those of the symbols.
        ValueError: no shape, a seed that is negative, or ``check`` is none of the two.
        TypeError: a seed or a size is no integer.
    """
    from autofuse.twin.run.kernel import MAX_SEED
    from autofuse.twin.run.native import CHECKS
    from autofuse.twin.verify import split
    from autofuse.twin.verify.verify import VERIFY_JOB, verify_in_subprocess

    built = graph if isinstance(graph, BuildResult | SplitResult) else build(graph, target=target)
    if check not in CHECKS:
        raise ValueError(f"check is one of {', '.join(CHECKS)}, not {check!r}")
    seed = integer("seed", seed, 0, MAX_SEED)
    check_seed = integer("check_seed", check_seed, 0, MAX_SEED)
    wanted: dict[str, Any] = {}
    if isinstance(shapes, Sequence) and not isinstance(shapes, str):
        wanted["bindings"] = [_sizes(built.graph, s) for s in shapes]
        if not shapes:
            raise ValueError("no shape is given")
    else:
        wanted["count"] = integer("shapes", shapes, 1, 1 << 20)
    several = isinstance(built, SplitResult) and built.split is not None
    return verify_in_subprocess(
        built.files,
        built.graph,
        job=split.VERIFY_JOB if several else VERIFY_JOB,
        seed=seed,
        check=check,
        check_seed=check_seed,
        **wanted,
    )


def _sizes(graph: FusionGraph, given: Mapping[str, int]) -> dict[str, int]:
    """A size for every symbol of a graph.

    Raises:
        AutofuseError: AF5007, these are not the symbols.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"a shape is a dict of sizes, not {type(given).__name__}")
    names = [s.name for s in graph.symbols]
    sizes = symbol_sizes(graph.name, names, given)
    for name in names:
        if name not in given:
            hint = f"its symbols are: {', '.join(names)}"
            raise AutofuseError.of(
                "AF5007", f"{name} is a symbol without a size, of {graph.name}", hint=hint
            )
    return sizes


def _graph_file(name: str) -> str:
    return f"{name}.graph.json"


def _graph_text(graph: FusionGraph) -> str:
    from autofuse.implgraph.ir.serialise import json_text, to_json

    return json_text(to_json(graph), indent=1) + "\n"


def _read_folder(folder: Path) -> tuple[FusionGraph, dict[str, str]]:
    """The graph and the files of a folder that :meth:`BuildResult.write` made."""
    from autofuse.implgraph.ir.serialise import from_json_as

    files = artifacts.read_files(folder)
    names = [n for n in files if n.endswith(".graph.json") and "/" not in n]
    if len(names) != 1:
        raise AutofuseError.of(
            "AF1001",
            f"{folder} does not hold a kernel that autofuse wrote",
            where=Where(path=str(folder)),
            hint=f"autofuse build GRAPH -o {folder}",
        )
    return from_json_as(FusionGraph, json.loads(files[names[0]])), files


def hint_of(graph: GraphLike, *, target: str | TargetSpec = DEFAULT_TARGET) -> HintGraph:
    """The loop-level graph before scheduling: the first three stages of :func:`build`.

    Where there are several forms, it is the first one, in which no reduction of unknown size is divided.

    Raises:
        AutofuseError: as :func:`build`.
    """
    spec = target if isinstance(target, TargetSpec) else load_target(target)
    with reporting_bugs(graph, {"stage": "hint", "target": spec.name}):
        from autofuse.implgraph.lowering.lowering import lower_all
        from autofuse.implgraph.simplify.canonicalise import canonicalise

        return canonicalise(lower_all(read(graph), spec)[0])


def _check(wanted: bool, *graphs: HintGraph | ImplGraph) -> None:
    if wanted:
        from autofuse.implgraph.check.verify import check

        for g in graphs:
            check(g)


@contextmanager
def _timed(timings: dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    timings[stage] = timings.get(stage, 0.0) + time.perf_counter() - start
