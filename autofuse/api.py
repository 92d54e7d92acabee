"""Build a graph, load its kernel, run it with modelled times, compare it with NumPy.

A build (:mod:`autofuse.compiler`) can be written (:meth:`BuildResult.write`), called on NumPy arrays (:func:`load`),
compared with NumPy (:func:`verify`), or run with modelled times (:func:`timed`); the last three use the CPU twin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from autofuse.base import knobs
from autofuse.base.arguments import integer, symbol_sizes
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.edits import blamed
from autofuse.failures import internal_error, reporting_bugs
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.results import BuildResult, SplitResult, TimedRun, read_folder
from autofuse.targets import (
    CpuTarget,
    GpuTarget,
    Target,
    TargetSpec,
    ascend_chip,
    ascend_only,
    find_known,
    find_target,
)
from autofuse.tracing import tracing

if TYPE_CHECKING:
    from autofuse.base.observing import Observer
    from autofuse.codegen.backends.ascendc.tuning import Tilings
    from autofuse.codegen.backends.interface import Backend
    from autofuse.codegen.backends.triton.tuning import Tuning
    from autofuse.compiler import Stages
    from autofuse.implgraph.ir.graph import HintGraph
    from autofuse.machines.cpu.kernel import CpuKernel
    from autofuse.machines.gpu.kernel import TritonKernel
    from autofuse.machines.npu.kernel import NpuKernel
    from autofuse.machines.twin.run.kernel import TwinKernel
    from autofuse.machines.twin.verify.verify import VerifyReport

__all__ = [
    "DEFAULT_TARGET",
    "BuildResult",
    "GraphLike",
    "SplitResult",
    "TimedRun",
    "TuningLike",
    "build",
    "build_split",
    "built_again",
    "graph_of",
    "hint_of",
    "internal_error",
    "load",
    "observed",
    "observed_split",
    "read",
    "read_tuning",
    "reporting_bugs",
    "timed",
    "verify",
]

DEFAULT_TARGET = "ascend910b1"

#: A graph, the path of a graph file, its text, or its text as a dict.
GraphLike: TypeAlias = "FusionGraph | Path | str | Mapping[str, Any]"
#: The path of a tuning file, or its parsed contents.
TuningLike: TypeAlias = "Tuning | Tilings | Path | str"


def build(
    graph: GraphLike,
    *,
    target: str | TargetSpec | GpuTarget | CpuTarget = DEFAULT_TARGET,
    entry: str = "launch",
    ub_bytes: int | None = None,
    verify_ir: bool | None = None,
    invariant: bool = False,
    tuning: TuningLike | None = None,
    backward: GraphLike | None = None,
) -> BuildResult:
    """Generate the kernel of a graph, as the text of all files; nothing is compiled or written.

    The files depend only on the graph, the target, the options and the version. Threads may build concurrently.

    Args:
        graph: a FusionGraph, the path of a graph file, or the text of one (as text or as a dict).
        target: the chip, by name (``autofuse.target_names()``) or as returned by ``autofuse.load_target``, or the GPU
            (``autofuse.gpu_names()``, ``autofuse.load_gpu``).
        entry: ``launch``: a library with C functions that launch the kernel; ``op-package``: a custom operator project
            of CANN, which calls it through aclnn (``docs/op_package.md``); ``torch``: a PyTorch extension
            (``docs/torch_extension.md``).
        ub_bytes: bytes of UB that the kernel may use, at most those available on the chip; None: all of them.
        verify_ir: check the IR after every stage; by default only if AUTOFUSE_DEBUG is set.
        invariant: only the sizes of reduced axes may change the bits of a result; the number of rows, the cores, the
            template and the tile may not (``docs/certificate.md``).
        tuning: a tuning file, or the result of :func:`read_tuning`. For a chip it holds tilings that the host function
            takes before it searches, for a card blocks that replace those chosen by the rules. None: no tuning.
        backward: for the entry ``torch``, a graph of the gradient, whose inputs and outputs are named after those of
            ``graph`` (``docs/torch_extension.md``); None: the operator has no gradient.

    Raises:
        AutofuseError: every error in the graph (AF1xxx reading, AF2xxx lowering, AF3xxx scheduling); AF3007 the tuning
            does not fit; AF3008 no kernel can be invariant; AF5006 the target is unknown; AF5007 an option is out of
            range; AF9001 if autofuse itself failed. If cutting the graph would help, ``cut_after`` of the diagnostic
            names the places.
    """
    with tracing(target) as trace:
        return observed(
            graph,
            trace.observe,
            target=target,
            entry=entry,
            ub_bytes=ub_bytes,
            verify_ir=verify_ir,
            invariant=invariant,
            tuning=tuning,
            backward=backward,
        )


def observed(
    graph: GraphLike,
    observe: Observer | None,
    *,
    target: str | TargetSpec | GpuTarget | CpuTarget = DEFAULT_TARGET,
    entry: str = "launch",
    ub_bytes: int | None = None,
    verify_ir: bool | None = None,
    invariant: bool = False,
    tuning: TuningLike | None = None,
    backward: GraphLike | None = None,
) -> BuildResult:
    """Build like :func:`build`, and show an observer the input and output of every stage and pass.

    Args:
        graph: as for :func:`build`; so are the other arguments without a reference.
        observe: called as ``observe(stage, pass or "", before, after)``, see :class:`autofuse.compiler.Stages`.
        target: the chip.
        entry: how the kernel gets its tiling data.
        ub_bytes: bytes of UB that the kernel may use.
        verify_ir: check the IR after every stage.
        invariant: only the sizes of reduced axes may change bits.
        tuning: tilings, or blocks of the kernels for a card.
        backward: a graph of the gradient.

    Raises:
        AutofuseError: as :func:`build`.
    """
    from autofuse import compiler

    spec, run = _machine(target, ub_bytes, verify_ir, observe, invariant)
    with reporting_bugs(graph, {"target": spec.name, "entry": entry, "ub_bytes": ub_bytes}):
        tuned = None if tuning is None else _tuned(tuning, spec)
        backend, spec = compiler.prepare(spec, entry, tuned)
        if backward is not None:
            compiler.check_gradient(backend, entry)
        fusion = run("read", read, graph)
        gradient = None if backward is None else run("read", read, backward)
        try:
            return compiler.compile(
                fusion, spec, entry=entry, backend=backend, backward=gradient, run=run
            )
        except AutofuseError as e:
            from autofuse.splitting import with_cuts

            raise with_cuts(e, fusion, spec) from None


def build_split(
    graph: GraphLike,
    *,
    target: str | TargetSpec | GpuTarget | CpuTarget = DEFAULT_TARGET,
    entry: str = "launch",
    ub_bytes: int | None = None,
    verify_ir: bool | None = None,
    invariant: bool = False,
    cut_after: Sequence[str] | None = None,
) -> SplitResult:
    """Generate one kernel for a graph if possible, else as few as possible with a driver.

    Among splits into equally few kernels, it takes the one with the least GM traffic. A part is a run of consecutive
    nodes of the graph; see ``docs/split.md``.

    Args:
        graph: as for :func:`build`.
        target: as there.
        entry: as there; only ``launch`` supports more than one kernel.
        ub_bytes: as there, for every kernel.
        verify_ir: as there.
        invariant: as there.
        cut_after: names of nodes after which to cut; by default autofuse chooses.

    Raises:
        AutofuseError: as :func:`build`.  If no cut helps, the diagnostics are those of every node that cannot be built
            even alone.
        TypeError: ``cut_after`` is a single string.
    """
    with tracing(target) as trace:
        return observed_split(
            graph,
            trace.observe,
            target=target,
            entry=entry,
            ub_bytes=ub_bytes,
            verify_ir=verify_ir,
            invariant=invariant,
            cut_after=cut_after,
        )


def observed_split(
    graph: GraphLike,
    observe: Observer | None,
    *,
    target: str | TargetSpec | GpuTarget | CpuTarget = DEFAULT_TARGET,
    entry: str = "launch",
    ub_bytes: int | None = None,
    verify_ir: bool | None = None,
    invariant: bool = False,
    cut_after: Sequence[str] | None = None,
) -> SplitResult:
    """Build like :func:`build_split`, with an observer as for :func:`observed`.

    Raises:
        AutofuseError: as :func:`build_split`.
        TypeError: ``cut_after`` is a single string.
    """
    if isinstance(cut_after, str):
        raise TypeError("cut_after is a sequence of names, not one text")
    from autofuse import compiler, splitting

    spec, run = _machine(target, ub_bytes, verify_ir, observe, invariant)
    with reporting_bugs(graph, {"target": spec.name, "ub_bytes": ub_bytes, "split": True}):
        compiler.prepare(spec, entry, None)
        fusion = run("read", read, graph)
        return splitting.compile_split(fusion, spec, entry=entry, cut_after=cut_after, run=run)


def _machine(
    target: str | TargetSpec | GpuTarget | CpuTarget,
    ub_bytes: int | None,
    verify_ir: bool | None,
    observe: Observer | None,
    invariant: bool,
) -> tuple[Target, Stages]:
    """Return the target and the object that runs the stages."""
    from autofuse.compiler import Stages

    spec = _target(target)
    if ub_bytes is not None:
        spec = ascend_only("bytes of UB are", spec).with_ub(ub_bytes)
    if invariant:
        hint = "-t ascend910b1 supports it; other targets make no promise across sizes"
        spec = ascend_only("--invariant is", spec, hint).in_fixed_order()
    return spec, Stages(observe, check_ir=knobs.DEBUG.get() if verify_ir is None else verify_ir)


def _target(target: str | Target) -> Target:
    return target if isinstance(target, Target) else find_target(target)


def _tuned(tuning: TuningLike, target: Target) -> Backend:
    """Return the backend with the contents of a tuning file."""
    from autofuse.codegen.backends.interface import load_backend

    backend = load_backend(target.backend)
    kind = backend.capabilities.tuning
    if kind is None:
        text = f"a tuning file is for an Ascend chip or a card, not for {target.name}"
        raise AutofuseError.of("AF5007", text, hint="-t nvidia-h100 writes kernels for a card")
    given = read_tuning(tuning) if isinstance(tuning, str | Path) else tuning
    if not isinstance(given, kind):
        text = f"the tuning file is for target {given.target!r}, not for {target.name!r}"
        where = given.places.get("target", Where())
        hint = f"autofuse tune GRAPH -t {target.name} writes one"
        raise AutofuseError.of("AF3007", text, where=where, hint=hint)
    return backend.tuned(given)


def read_tuning(path: str | Path) -> Tuning | Tilings:
    """Read a tuning file for :func:`build`.

    Args:
        path: the file, of schema ``autofuse.tuning/1``.

    Returns:
        Tilings for an Ascend chip, or blocks for a card.

    Raises:
        AutofuseError: AF1xxx, all errors in the text at once, with line, column and JSON pointer.
    """
    from autofuse.frontends.tuning import read_tuning as read_file

    return read_file(Path(path))


def read(graph: GraphLike) -> FusionGraph:
    """Read and check any graph that :func:`build` takes; dtype and shape of every tensor are known.

    Args:
        graph: a path (autofuse.graph/1, MindSpore AKG info or ONNX, detected by content), a text that begins with ``{``
            or ``[``, the same as a dict, or a FusionGraph, which is returned unchanged.

    Raises:
        AutofuseError: AF1xxx, all errors in the file at once, with line, column and JSON pointer.
    """
    from autofuse.frontends import read as read_any

    return read_any(graph)


def load(
    built: BuildResult | SplitResult | str | Path,
    *,
    check: str = "fast",
    check_seed: int = 0,
    device: str = "cpu",
) -> TwinKernel | NpuKernel | TritonKernel | CpuKernel:
    """Return the kernel, or the kernels with their driver, as a function on NumPy arrays.

    Ascend C kernels run on the CPU twin, on a chip or on a card; Triton kernels in Triton's interpreter or on a card;
    C++ loops on this machine.

    Args:
        built: the result of :func:`build` or :func:`build_split`, or a folder that it was written to.
        check: ``all`` checks every call for races, uninitialised data and elements written twice, and is several times
            slower; ``fast`` does not.
        check_seed: with ``all``, 0 executes instructions in program order; any other number seeds an unfavourable order
            that a chip may choose.
        device: ``cpu``; also ``cuda`` or ``cuda:N``, and for kernels of Ascend C ``npu`` or ``npu:N``.

    Returns:
        A callable that takes arrays in the order of the graph's inputs, or by name, and returns the output, or a tuple
        of them. Several threads may call it concurrently. Ascend C kernels and C++ loops run in this process. The first
        compilation takes seconds; the library stays in the cache folder (``AUTOFUSE_CACHE_DIR``). An Ascend C
        library is unmapped once nothing refers to the callable. Triton kernels run in another process, which takes
        seconds to start. A kernel on a chip needs CANN; an Ascend C kernel on a card needs nvcc and the card's driver;
        both run in this process, too.

    Raises:
        AutofuseError: AF5001 no compiler, or no Triton; AF5002 the code does not compile; AF5015 an edited file does
            not compile; AF5009 the cache folder cannot be used; AF1001 the folder does not hold a kernel; AF5007 the
            kernel does not run on this device, or does not support this check; AF5011 to AF5013 CANN is missing, fails,
            or refuses the kernel.
        ValueError: ``check`` is neither of these.
    """
    if not isinstance(built, BuildResult | SplitResult):
        graph, files = read_folder(Path(built))
        with blamed(Path(built)):
            return _loaded(graph, files, check, check_seed, device)
    return _loaded(built.graph, built.files, check, check_seed, device)


def _loaded(
    graph: FusionGraph, files: Mapping[str, str], check: str, check_seed: int, device: str
) -> TwinKernel | NpuKernel | TritonKernel | CpuKernel:
    """Return the kernel in ``files`` as a function."""
    from autofuse.machines.machine import machine_of, refuse_others

    machine = machine_of(files, graph, device)
    refuse_others(machine, {"check": check != "fast", "check_seed": check_seed})
    kernel = machine.load(files, graph, device, check=check, check_seed=check_seed)
    return cast("TwinKernel | NpuKernel | TritonKernel | CpuKernel", kernel)


def timed(
    built: BuildResult | SplitResult | str | Path,
    inputs: Mapping[str, Any],
    *,
    symbols: Mapping[str, int] | None = None,
    key: int | None = None,
    check: str = "fast",
    check_seed: int = 0,
) -> TimedRun:
    """Run a kernel once on the CPU twin, with instruction times from the cost model of its chip.

    Args:
        built: the result of :func:`build`, or a folder that it was written to; a graph of several kernels is refused.
        inputs: by name, an array per input with its dtype and shape, or a number for a scalar.
        symbols: sizes that the shapes do not determine.
        key: the tiling key to take; None: the tiling function chooses.
        check: as for :func:`load`.
        check_seed: as there.

    Returns:
        The outputs, and modelled times in cycles and microseconds; these are not measurements.

    Raises:
        AutofuseError: as for :func:`load`, and as calling its result; AF5007 several kernels.
    """
    from autofuse.machines.machine import machine_of
    from autofuse.machines.twin.run.compile import compile_kernel
    from autofuse.machines.twin.run.kernel import TwinKernel, chip_named
    from autofuse.machines.twin.timed.timed import timed_run
    from autofuse.machines.twin.verify.split import read_parts

    if isinstance(built, BuildResult | SplitResult):
        graph, files, chip = built.graph, built.files, ascend_chip(built.target)
    else:
        graph, files = read_folder(Path(built))
        chip = None
        if "trace" not in machine_of(files, graph).options:
            text = f"{graph.label} has no timing model: it is not written in Ascend C"
            raise AutofuseError.of("AF5007", text)
    if read_parts(files, graph.name):
        raise AutofuseError.of(
            "AF5007",
            f"{graph.label} has several kernels: timed mode takes one at a time",
            hint="autofuse build --split writes each into a folder under parts/; run one of those",
        )
    # The name comes from the files, so it must not open a target file.
    chip = chip or chip_named(files, graph.name)
    with blamed(None if isinstance(built, BuildResult | SplitResult) else Path(built)):
        library = compile_kernel(files, graph.name, checked=True)
    kernel = TwinKernel(library, graph, check=check, check_seed=check_seed, chip=chip)
    return TimedRun(*timed_run(kernel, inputs, chip, symbols=symbols, key=key))


def verify(
    graph: BuildResult | SplitResult | GraphLike,
    *,
    shapes: int | Sequence[Mapping[str, int]] = 6,
    seed: int = 0,
    target: str | TargetSpec | GpuTarget | CpuTarget = DEFAULT_TARGET,
    check: str = "all",
    check_seed: int = 0,
    device: str = "cpu",
) -> VerifyReport:
    """Compile for the CPU twin, run every tiling key on random data, and compare with NumPy.

    Triton kernels run in Triton's interpreter, or on a card. Every kernel runs in another process, limited to
    ``AUTOFUSE_VERIFY_TIMEOUT`` seconds and ``AUTOFUSE_VERIFY_MEMORY_MB`` MiB, so a hang or a crash is a finding as
    well.

    Args:
        graph: the result of :func:`build` or :func:`build_split`, or a graph that they take.
        shapes: sizes of the symbols to try (one dict per shape, symbol -> elements), or the number of shapes to choose.
        seed: of sizes and data.
        target: the chip or the GPU, if the graph is not built yet.
        check: as for :func:`load`, but ``all`` by default.
        check_seed: as for :func:`load`.
        device: as for :func:`load`.

    Returns:
        The report; a wrong kernel is a finding in it, not an exception.

    Raises:
        AutofuseError: the graph cannot be built (as :func:`build`), or the kernel cannot be compiled (as :func:`load`);
            AF5007 ``shapes`` does not match the symbols, or the kernel does not run on this device.
        ValueError: no shape, a negative seed, or an unknown ``check``.
        TypeError: a seed or a size is not an integer.
    """
    from autofuse.machines import machine as machines
    from autofuse.machines.twin.run.kernel import MAX_SEED
    from autofuse.machines.twin.run.native import CHECKS

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
    machine = machines.machine_for(built.target.backend, device)
    machines.refuse_others(machine, {"check": check != "all", "check_seed": check_seed})
    if "check" in machine.options:
        wanted |= {"check": check, "check_seed": check_seed}
    wanted |= {"seed": seed, "target": built.target}
    return machines.verify(built.files, built.graph, device, **wanted)


def _sizes(graph: FusionGraph, given: Mapping[str, int]) -> dict[str, int]:
    """Return a size for every symbol of a graph.

    Raises:
        AutofuseError: AF5007, the names do not match the symbols.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"a shape is a dict of sizes, not {type(given).__name__}")
    labels = graph.symbol_labels()
    sizes = symbol_sizes(graph.label, labels, given)
    for name, label in labels.items():
        if name not in sizes:
            hint = f"its symbols are: {', '.join(labels.values())}"
            raise AutofuseError.of(
                "AF5007", f"{label} is a symbol without a size, of {graph.label}", hint=hint
            )
    return sizes


def graph_of(path: Path) -> FusionGraph:
    """Return the graph of a file, or of a folder that :meth:`BuildResult.write` wrote.

    Raises:
        AutofuseError: AF1xxx, as :func:`read`.
    """
    return read_folder(path)[0] if path.is_dir() else read(path)


def built_again(graph: FusionGraph, files: Mapping[str, str]) -> BuildResult | SplitResult:
    """Build the graph of a folder again, for the target and with the options recorded in its files.

    Args:
        graph: as returned by :func:`folder_files`.
        files: likewise; they may be edited, or come from another version: their options are used where they fit.

    Raises:
        AutofuseError: as :func:`build`; AF1001, the metadata do not name the target; AF5006, the target's figures are
            in a file of the user.
    """
    from autofuse.codegen.backends.interface import load_backend

    several = any(n.startswith("parts/") for n in files)
    names = [n for n in sorted(files) if n.startswith("parts/") and n.count("/") == 2]
    texts = [
        t for n in (f"{graph.name}.json", *names) if (t := files.get(n)) and n.endswith(".json")
    ]
    facts: dict[str, Any] = {}
    for text in texts:
        with suppress(ValueError, RecursionError):
            found = json.loads(text)
            if isinstance(found, dict):
                facts = found | facts
    target = facts.get("target")
    if not isinstance(target, str):
        text = f"{graph.name}.json does not name the kernel's target"
        raise AutofuseError.of("AF1001", text, hint="build the graph again")
    if "targetBase" in facts:
        text = f"the kernel is for {target}, a custom target file that the folder does not contain"
        hint = "give the graph instead of the folder, and the target file with -t"
        raise AutofuseError.of("AF5006", text, hint=hint)
    spec = find_known(target)  # the name comes from the files, so it must not open a target file
    options: dict[str, Any] = {"invariant": facts.get("invariant") is True}
    templates = facts.get("templates")
    first = templates[0] if isinstance(templates, list) and templates else None
    ub = first.get("ubLimit") if isinstance(first, dict) else None
    if type(ub) is int and 0 < ub < ascend_chip(spec).ub_usable:
        options["ub_bytes"] = ub
    entries = load_backend(spec.backend).capabilities.entries
    if "op-package" in entries and not any(n.endswith("_launch.cpp") for n in files):
        options["entry"] = "op-package"
    return (build_split if several else build)(graph, target=spec, **options)


def hint_of(
    graph: GraphLike, *, target: str | TargetSpec | GpuTarget | CpuTarget = DEFAULT_TARGET
) -> HintGraph:
    """Return the loop-level graph before scheduling: the result of the first three stages of :func:`build`.

    If there are several forms, it is the first one, in which no reduction of unknown size is divided.

    Raises:
        AutofuseError: as :func:`build`.
    """
    spec = _target(target)
    with tracing(spec) as trace, reporting_bugs(graph, {"stage": "hint", "target": spec.name}):
        from autofuse import compiler

        run = compiler.Stages(trace.observe)
        fusion = run("read", read, graph)
        can = compiler.prepare(spec, "launch", None)[0].capabilities
        if can.plans is not None:
            return compiler.lower_to_plan(fusion, run, masks=can.masks)
        return compiler.lower(fusion, ascend_chip(spec), run)[0]
