"""The driver: a graph in, files out, and what can be done with them.

========== ============================ ====================== ==============================
stage      input                        output                 module
========== ============================ ====================== ==============================
read       text of a graph file         FusionGraph            autofuse.frontends
lower      FusionGraph                  HintGraph              autofuse.implgraph.lowering
simplify   HintGraph                    HintGraph              autofuse.implgraph.canonicalise
schedule   HintGraph, TargetSpec        ScheduleResult, ...    autofuse.schedule.scheduler
generate   ScheduleResult, ...          files: path -> text    autofuse.codegen.generate
========== ============================ ====================== ==============================

The output of a stage is the input of the next one.  :func:`build` is these five calls, timed.
What is built can be written (:meth:`BuildResult.write`), called on NumPy arrays (:func:`load`) and
compared with NumPy (:func:`verify`); the last two use the CPU twin.  There is no global state:
threads may build at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from autofuse import artifacts, knobs
from autofuse.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.implgraph.fusion import FusionGraph
from autofuse.targets import TargetSpec, load_target

if TYPE_CHECKING:
    from autofuse.implgraph.graph import HintGraph, ImplGraph
    from autofuse.schedule.result import ScheduleResult
    from autofuse.twin.kernel import TwinKernel
    from autofuse.twin.verify import VerifyReport

__all__ = [
    "DEFAULT_TARGET",
    "BuildResult",
    "GraphLike",
    "build",
    "hint_of",
    "internal_error",
    "load",
    "read",
    "reporting_bugs",
    "verify",
]

DEFAULT_TARGET = "ascend910b1"

#: A graph, the path of a graph file, its text, or its text as a dict.
GraphLike: TypeAlias = "FusionGraph | Path | str | Mapping[str, Any]"


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What :func:`build` made.

    Attributes:
        graph: the graph as it was read.
        hint: the loop-level graph before scheduling.
        schedule: the ways to realise it, with the templates of each.
        files: path inside the output folder -> text.
        timings: stage -> seconds.
    """

    graph: FusionGraph
    target: TargetSpec
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
        """What ``<name>.json`` says: parameters, tiling keys, workspace, digests."""
        found: dict[str, Any] = json.loads(self.files[f"{self.name}.json"])
        return found

    def write(self, folder: str | Path, *, force: bool = False) -> artifacts.Written:
        """Write all files into ``folder``, or none of them.

        Raises:
            AutofuseError: AF5005, the folder cannot be written, or a file in it was edited or is
                not ours; ``force`` overwrites such files.
        """
        return artifacts.write_files(self.files, folder, force=force)

    def summary(self) -> dict[str, Any]:
        """The build in numbers, ready for JSON."""
        from autofuse.report.build_summary import rejected_rows, template_rows

        return {
            "name": self.name,
            "target": self.target.name,
            "experimental": self.target.experimental,
            "templates": template_rows(self.schedule, self.graph.symbols),
            "rejected": rejected_rows(self.schedule),
            "files": sorted(self.files),
            "seconds": dict(self.timings),
        }


def build(
    graph: GraphLike,
    *,
    target: str | TargetSpec = DEFAULT_TARGET,
    entry: str = "launch",
    ub_bytes: int | None = None,
    verify_ir: bool | None = None,
) -> BuildResult:
    """Generate the kernel of a graph.

    Args:
        graph: a FusionGraph, the path of a graph file, or the text of one (as text or as a dict).
        target: the chip.
        entry: how the kernel gets its tiling data: ``launch``, by value (``<<<>>>``); ``op-package``, in GM, with
            ``TILING_KEY_IS``, for a custom-op project, which brings its own launcher and build.
        ub_bytes: bytes of UB that the kernel may use, at most what the chip has for it; None: all of it.
        verify_ir: check the IR after every stage; by default only if AUTOFUSE_DEBUG is set.

    Raises:
        AutofuseError: everything that is wrong with the graph; AF5007 an option is out of range; AF9001 if
            autofuse itself failed.
    """
    spec = load_target(target) if isinstance(target, str) else target
    if ub_bytes is not None:
        spec = spec.with_ub(ub_bytes)
    check_ir = knobs.DEBUG.get() if verify_ir is None else verify_ir
    timings: dict[str, float] = {}
    with reporting_bugs(graph, {"target": spec.name, "entry": entry, "ub_bytes": ub_bytes}):
        from autofuse.codegen.generate import check_entry, generate
        from autofuse.implgraph.canonicalise import canonicalise
        from autofuse.implgraph.lowering import lower
        from autofuse.implgraph.serialise import to_json
        from autofuse.schedule.scheduler import schedule

        check_entry(entry)
        with _timed(timings, "read"):
            fusion = read(graph)
        with _timed(timings, "lower"):
            hint = lower(fusion)
        _check(check_ir, hint)
        with _timed(timings, "simplify"):
            hint = canonicalise(hint)
        _check(check_ir, hint)
        with _timed(timings, "schedule"):
            results = schedule(hint, spec)
        _check(check_ir, *(i for r in results for g in r.groups for i in g.impls))
        if check_ir:
            from autofuse.codegen.verification import check_schedule

            check_schedule(fusion, results, spec)
        with _timed(timings, "generate"):
            files = generate(fusion, results, spec, entry=entry)
            # So that a folder of generated files is enough to load and verify the kernel.
            files[_graph_file(fusion.name)] = json.dumps(to_json(fusion), indent=1) + "\n"
    return BuildResult(fusion, spec, hint, results, files, timings)


def read(graph: GraphLike) -> FusionGraph:
    """The FusionGraph of anything that :func:`build` takes.

    Raises:
        AutofuseError: every error of the text at once.
    """
    from autofuse.frontends import parse_graph, read_graph

    if isinstance(graph, FusionGraph):
        return graph
    if isinstance(graph, Mapping):
        return parse_graph(json.dumps(graph))
    if isinstance(graph, str) and graph.lstrip()[:1] in ("{", "["):
        return parse_graph(graph)
    return read_graph(graph)


def load(
    built: BuildResult | str | Path, *, check: str = "fast", check_seed: int = 0
) -> TwinKernel:
    """The kernel as a function on NumPy arrays, running on the CPU twin.

    Args:
        built: what :func:`build` returned, or a folder that it was written to.
        check: ``all`` looks for races, uninitialised data and elements written twice at every call,
            which takes several times as long; ``fast`` does not.
        check_seed: with ``all``, 0 executes instructions in program order, any other number in an
            order that a chip may choose, as unfavourable as the number makes it.

    Returns:
        A callable: arrays in the order of the graph's inputs, or by name; it returns the output, or
        a tuple of them.  The kernel runs in this process.

    Raises:
        AutofuseError: AF5001 no compiler, AF5002 the code does not compile, AF1001 the folder does
            not hold a kernel.
    """
    from autofuse.twin.compile import compile_kernel
    from autofuse.twin.kernel import TwinKernel

    if isinstance(built, BuildResult):
        graph, files = built.graph, built.files
    else:
        graph, files = _read_folder(Path(built))
    library = compile_kernel(files, graph.name, checked=check == "all")
    return TwinKernel(library, graph, check=check, check_seed=check_seed)


def verify(
    graph: BuildResult | GraphLike,
    *,
    shapes: int | Sequence[Mapping[str, int]] = 6,
    seed: int = 0,
    target: str | TargetSpec = DEFAULT_TARGET,
    check: str = "all",
    check_seed: int = 0,
) -> VerifyReport:
    """Compile for the CPU twin, run every tiling key on random data, compare with NumPy.

    The kernel runs in another process.

    Args:
        graph: what :func:`build` returned, or what it takes.
        shapes: sizes of the symbols to try, or how many to choose.
        seed: of sizes and data.
        target: the chip, if the graph is not built yet.
        check: as for :func:`load`, but ``all`` unless said otherwise.
        check_seed: as for :func:`load`.

    Returns:
        The report; a wrong kernel is a finding in it, not an exception.

    Raises:
        AutofuseError: the graph cannot be built, or the kernel not be compiled.
    """
    from autofuse.twin.verify import verify_in_subprocess

    built = graph if isinstance(graph, BuildResult) else build(graph, target=target)
    wanted = {"count": shapes} if isinstance(shapes, int) else {"bindings": list(shapes)}
    return verify_in_subprocess(
        built.files, built.graph, seed=seed, check=check, check_seed=check_seed, **wanted
    )


def _graph_file(name: str) -> str:
    return f"{name}.graph.json"


def _read_folder(folder: Path) -> tuple[FusionGraph, dict[str, str]]:
    """The graph and the files of a folder that :meth:`BuildResult.write` made."""
    from autofuse.implgraph.serialise import from_json_as

    files = artifacts.read_files(folder)
    names = [n for n in files if n.endswith(".graph.json")]
    if len(names) != 1:
        raise AutofuseError.of(
            "AF1001",
            f"{folder} does not hold a kernel that autofuse wrote",
            where=Where(path=str(folder)),
            hint=f"autofuse build GRAPH -o {folder}",
        )
    return from_json_as(FusionGraph, json.loads(files[names[0]])), files


def hint_of(graph: GraphLike) -> HintGraph:
    """The loop-level graph before scheduling: the first three stages of :func:`build`.

    Raises:
        AutofuseError: as :func:`build`.
    """
    with reporting_bugs(graph, {"stage": "hint"}):
        from autofuse.implgraph.canonicalise import canonicalise
        from autofuse.implgraph.lowering import lower

        return canonicalise(lower(read(graph)))


def _check(wanted: bool, *graphs: HintGraph | ImplGraph) -> None:
    if wanted:
        from autofuse.implgraph.verify import check

        for g in graphs:
            check(g)


@contextmanager
def _timed(timings: dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    timings[stage] = time.perf_counter() - start


@contextmanager
def reporting_bugs(graph: GraphLike, options: Mapping[str, object]) -> Iterator[None]:
    """Turn an exception that is not a diagnostic into AF9001, with a reproducer on disk."""
    try:
        yield
    except AutofuseError:
        raise
    except Exception as e:
        raise internal_error(e, source=_source(graph), options=options) from e


def _source(graph: GraphLike) -> str:
    """The text to reproduce a failure from."""
    from autofuse.frontends.onnx import looks_like_onnx
    from autofuse.implgraph.serialise import to_json

    try:
        if isinstance(graph, FusionGraph):
            return json.dumps(to_json(graph), indent=1)
        if isinstance(graph, Mapping):
            return json.dumps(graph, indent=1)
        if isinstance(graph, str) and graph.lstrip()[:1] in ("{", "["):
            return graph
        data = Path(graph).read_bytes()
        if looks_like_onnx(data, str(graph)):
            return json.dumps(to_json(read(graph)), indent=1)
        return data.decode("utf-8", errors="replace")
    except Exception as e:  # The failure to report may be the reason that this fails too.
        return f"the input cannot be shown: {e!r}\n"


def internal_error(
    error: Exception, *, source: str = "", options: Mapping[str, object] | None = None
) -> AutofuseError:
    """AF9001 for an exception that should not have happened; its note names the reproducer."""
    notes = []
    try:
        notes.append(f"reproducer: {artifacts.save_reproducer(error, source, options or {})}")
    except (OSError, AutofuseError) as e:
        notes.append(f"no reproducer could be written: {e}")
    if knobs.DEBUG.get():
        notes += artifacts.traceback_text(error).splitlines()
    found = Diagnostic(
        "AF9001",
        f"internal error: {type(error).__name__}: {error}",
        hint="please report this with that folder: it holds the graph, the options, the versions "
        "and the traceback",
        notes=tuple(notes),
    )
    return AutofuseError((found,))
