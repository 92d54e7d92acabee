"""Jobs of a worker process for ``run`` and ``verify``: JSON in, JSON out.

A kernel that crashes or loops takes its worker with it, not the command (``autofuse.machines.twin.run.worker``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from autofuse import api
from autofuse.base.arguments import spelled, symbol_sizes
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.edits import blamed
from autofuse.base.wording import counted
from autofuse.commands import words, writing
from autofuse.implgraph.cutting.dimensions import shrink, symbolize
from autofuse.implgraph.ir.dtypes import numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import from_json_as
from autofuse.machines.machine import (
    Machine,
    backend_of,
    machine_for,
    machine_of,
    names_in,
    refuse_others,
)
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.oracle.indices import outside
from autofuse.machines.twin.oracle.oracle import evaluate
from autofuse.machines.twin.oracle.sizes import largest_tensor, shapes_for, sizes_with
from autofuse.machines.twin.run.arguments import solve_symbols
from autofuse.machines.twin.run.values import wrong_dtype
from autofuse.machines.twin.verify.same_code import claim, digest
from autofuse.machines.twin.verify.split import SplitKernel, read_parts
from autofuse.machines.words import CPU
from autofuse.results import read_folder
from autofuse.schedule.axes.result import tiling_keys
from autofuse.targets import find_target

__all__ = ["run_job", "verify_job"]

#: Size of a symbol when judging a graph by the size of its tensors.
_FEW = 4


def verify_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run :func:`_verify`, with a reproducer for internal errors."""
    sent = job.get("graph")
    graph = Path(job["path"]) if sent is None else from_json_as(FusionGraph, sent)
    with api.reporting_bugs(graph, {k: v for k, v in job.items() if k != "graph"}):
        return _verify(job, graph)


def _verify(job: Mapping[str, Any], source: Path | FusionGraph) -> dict[str, Any]:
    """Read, build and verify one graph file.

    Args:
        job: ``path``; ``graph`` (or nothing): the JSON of a FusionGraph, of a file on another host;
            ``files`` (or nothing): of a folder there, ``expected`` (or nothing): the graph in place of ``against``;
            ``target``, ``shapes`` (how many), ``seed``; ``max_elements``: a graph with a
            larger tensor is shrunk by the rule of ``implgraph.cutting.dimensions.shrink`` to be run, and
            generated with its own sizes as well; ``symbolic``:
            fixed sizes become symbols first; ``split``: several kernels where one is not enough;
            ``check`` and ``check_seed`` (or nothing, for ``all`` and 0): see
            ``autofuse.machines.twin.run.kernel.TwinKernel``; ``opt`` (or nothing): see
            ``autofuse.machines.twin.verify.verify.verify_kernel``; ``device`` (or nothing, for ``cpu``): where
            kernels run; ``invariant`` (or nothing, for False): as for ``autofuse.build``;
            ``tuning`` (or nothing): a tuning file, for the graph as it is;
            ``symbols`` (or nothing): fixed sizes, ``inputs`` (or nothing): name -> .npy file, in place of random data,
            both for the graph as it is;
            ``against`` (or nothing): the graph file of the expected results, if ``path`` is a generated
            folder; ``claims`` (or nothing): a folder for this verification; a kernel claimed by another job is built
            but not run;
            ``sizes`` (or nothing, for True): kernels of other sizes are others.
        source: the file, or the graph.

    Returns:
        ``report`` (a VerifyReport as JSON; None: not run), ``code`` (with ``claims``, the digest of
        ``autofuse.machines.twin.verify.same_code``, else None), ``keys`` (number of tiling keys, over all kernels),
        ``shrunk`` (elements of the largest tensor before and after, or None), ``seconds`` (of the
        build), ``parts`` (number of kernels).
    """
    if "files" in job or (isinstance(source, Path) and source.is_dir()):
        return _verify_folder(job)
    graph = api.read(source)
    small, shrunk = _shrunk(graph, job["max_elements"])
    make = api.build_split if job.get("split", False) else api.build
    how = {"target": job["target"], "invariant": job.get("invariant", False)}
    tuning = job.get("tuning")
    as_it_is = tuning or ("--input" if job.get("inputs") else None)
    if shrunk is not None and as_it_is is not None:
        raise _too_large_for(as_it_is, shrunk["from"], job)
    if shrunk is not None:
        # A graph that is refused or fails with its own sizes must not pass with smaller ones.
        make(graph, **how)
    graph = symbolize(small) if job["symbolic"] else small
    data = _asked(graph, job)
    device = job.get("device", CPU)
    if job.get("split", False):
        built = api.build_split(graph, **how)
    else:
        one = api.build(graph, **how, tuning=tuning)
        built = api.SplitResult(graph, one.target, None, (one,), one.files, one.timings)
    claims, code = job.get("claims"), None
    if claims is not None:
        code = digest(built.files, built.graph, sizes=job.get("sizes", True))
    if claims is not None and code is not None and not claim(Path(claims), code, job["path"]):
        report = None
    else:
        machine = machine_for(built.target.backend, device)
        how = _options(machine, job)
        report = machine.verify_here(built.files, built.graph, device, **data, **how)
    return {
        "report": None if report is None else report.to_json(),
        "code": code,
        "keys": sum(len(tiling_keys(p.schedule)) for p in built.parts),
        "shrunk": shrunk,
        "seconds": sum(built.timings.values()),
        "parts": len(built.parts),
    }


def _verify_folder(job: Mapping[str, Any]) -> dict[str, Any]:
    """Verify the kernel in a folder as it is, edited or not, at the sizes of its graph; see :func:`_verify`."""
    folder, sent = Path(job["path"]), job.get("files")
    if sent is None:
        graph, files = read_folder(folder)
    else:
        graph, files = from_json_as(FusionGraph, job["graph"]), dict(sent)
    against = job.get("expected")
    expected = _expected(
        graph,
        folder,
        job.get("against") if against is None else from_json_as(FusionGraph, against),
    )
    expected = expected or graph
    # Names of kernels and symbols come from the folder.
    expected = replace(expected, name=graph.name)
    options = _asked(expected, job)
    parts, device = read_parts(files, graph.name), job.get("device", CPU)
    machine = machine_of(files, graph, device)
    # A folder of another host is not here; the caller knows its edits.
    with blamed(folder if sent is None else None):
        report = machine.verify_here(files, expected, device, **options, **_options(machine, job))
    return {
        "report": report.to_json(),
        "code": None,
        "keys": sum(_keys(text) for name, text in files.items() if name.endswith(".json")),
        "shrunk": None,
        "seconds": 0.0,
        "parts": max(len(parts), 1),
    }


def _options(machine: Machine, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a verification that a machine has."""
    usual = {"check": "all", "check_seed": 0, "opt": None}
    return {k: job.get(k, v) for k, v in usual.items() if k in machine.options}


def _keys(text: str) -> int:
    """Return the number of tiling keys in a metadata file; 0 for any other file."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return 0
    keys = found.get("tilingKeys") if isinstance(found, dict) else None
    return len(keys) if isinstance(keys, list) else 0


def _asked(graph: FusionGraph, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a verification that set the sizes and data of a run."""
    found: dict[str, Any] = {"count": job["shapes"], "seed": job["seed"]}
    files, sizes = job.get("inputs", {}), job.get("symbols", {})
    if not files and not sizes:
        return found
    given = _given_arrays(graph, files)
    fixed = _fixed(graph, given, sizes)
    ends: dict[str, dict[str, Any]] = {
        n: {"min": size, "max": size, "hint": None} for n, size in fixed.items()
    }
    narrow = replace(
        graph, symbols=tuple(replace(s, **ends.get(s.name, {})) for s in graph.symbols)
    )
    chosen = shapes_for(narrow, job["shapes"], job["seed"], max_elements=job["max_elements"])
    return {**found, "given": given, "bindings": chosen}


def _too_large_for(what: str, elements: int, job: Mapping[str, Any]) -> AutofuseError:
    """Return AF5007 for blocks or data of a graph that is larger than verify runs."""
    text = f"{what} is for the graph's own sizes, but its largest tensor has {counted(elements, 'element')}"
    hint = (
        f"verify runs at most {job['max_elements']}; autofuse run takes the graph's own sizes, of a "
        "tuning file the folder that build --tuning -o DIR writes"
    )
    return AutofuseError.of("AF5007", text, where=Where(job["path"]), hint=hint)


def _shrunk(graph: FusionGraph, limit: int) -> tuple[FusionGraph, dict[str, int] | None]:
    """Shrink the fixed sizes of a graph until it is small enough to run; symbols are small in a run anyway."""
    few = {s.name: min(max(s.min, _FEW), s.max) for s in graph.symbols}
    hinted = tuple(replace(s, hint=few[s.name]) for s in graph.symbols)
    small = replace(shrink(replace(graph, symbols=hinted), limit), symbols=graph.symbols)
    before, after = largest_tensor(graph, few), largest_tensor(small, few)
    return (graph, None) if before == after else (small, {"from": before, "to": after})


def run_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run :func:`_run`, with a reproducer for internal errors."""
    with api.reporting_bugs(Path(job["path"]), job):
        return _run(job)


def _run(job: Mapping[str, Any]) -> dict[str, Any]:
    """Build one graph file, run it once, compare with NumPy.

    Args:
        job: ``path`` (a graph file or a generated folder); ``target``, ``seed``, ``key`` (or
            None), ``invariant`` (or nothing), ``symbols`` (sizes), ``inputs`` (name -> .npy file), ``save`` (folder for
            the outputs, or None), ``split``, ``tuning`` (a tuning file, or nothing), ``check`` (or None, for ``fast``),
            ``check_seed``, ``device``; ``against`` (or nothing): the graph file of the expected
            outputs; ``traces`` and ``pages`` (or nothing):
            files that timed mode writes.

    Returns:
        Sizes, machine, tiling key, number of cores, a comparison per output, errors of the data if one differs
        (``faults``), and the saved files;
        ``timed``: modelled times without single instructions, or None.
    """
    path = Path(job["path"])
    # Validate the request before anything is compiled.
    asked = api.graph_of(path)
    expected = _expected(asked, path, job.get("against"))
    given = _given_arrays(asked, job["inputs"])
    sizes = _sizes(asked, given, job["symbols"])
    backend = (
        backend_of(names_in(path), asked) if path.is_dir() else find_target(job["target"]).backend
    )
    machine = machine_for(backend, job["device"])
    refuse_others(
        machine,
        {
            "--key": job["key"] is not None,
            "--check": job["check"],
            "--check-seed": job["check_seed"],
            "--trace": job.get("traces"),
            "--html": job.get("pages"),
        },
    )
    source: Path | api.BuildResult | api.SplitResult = path
    invariant = bool(job.get("invariant", False))
    if not path.is_dir() and job.get("split", False):
        source = api.build_split(path, target=job["target"], invariant=invariant)
    elif not path.is_dir():
        tuning = job.get("tuning")
        source = api.build(path, target=job["target"], invariant=invariant, tuning=tuning)
    timed_wanted = bool(job.get("traces") or job.get("pages"))
    check = job["check"] or "fast"
    kernel = api.load(
        source,
        # Timed mode compiles it this way anyway.
        check="all" if timed_wanted else check,
        check_seed=job["check_seed"],
        device=job["device"],
    )
    graph = kernel.graph
    inputs = random_inputs(graph, sizes, job["seed"], given=given)
    options: dict[str, Any] = {"key": job["key"]} if "key" in machine.options else {}
    timed = None
    if timed_wanted:
        checks = {"check": check, "check_seed": job["check_seed"]}
        timed = api.timed(source, _copies(graph, inputs), symbols=sizes, **options, **checks)
    start = time.perf_counter()
    run = timed.run if timed else kernel.run(_copies(graph, inputs), symbols=sizes, **options)
    seconds = time.perf_counter() - start
    used = {s.name: run.symbols[s.label] for s in graph.symbols}
    if expected is None:
        references = evaluate(graph, inputs, used, flushes=kernel.flushes)
    else:
        at = {s.name: run.symbols[s.label] for s in expected.symbols}
        references = evaluate(expected, inputs, at, flushes=kernel.flushes)
    rows = []
    for o in graph.outputs:
        dtype, array = graph.tensors[o.tensor].dtype, run.outputs[o.name]
        row = compare(o.name, array, references[o.name], dtype)
        found = {"ok": row.ok, "dtype": dtype.name, "shape": list(array.shape)}
        rows.append({**row.to_json(), **found})
    saved = _save(run.outputs, timed, job)
    return {
        "name": graph.label,
        "symbols": dict(run.symbols),
        "runs_on": kernel.runs_on,
        "key": run.key,
        "keys": kernel.key_count,
        "parts": len(kernel.parts) if isinstance(kernel, SplitKernel) else 1,
        "block_dim": run.block_dim,
        "workspace": run.workspace,
        "outputs": rows,
        "faults": [d.to_json() for d in outside(graph, inputs, used)],
        "saved": saved,
        "seconds": seconds,
        "timed": None if timed is None else _without_slices(timed.report),
    }


def _expected(
    kernel: FusionGraph, path: Path, file: str | FusionGraph | None
) -> FusionGraph | None:
    """Return the graph of the expected results, if it is not the kernel's own.

    Raises:
        AutofuseError: AF1xxx, as :func:`autofuse.api.read`; AF5007, the kernel has another signature.
    """
    if file is None:
        return None
    graph = api.read(Path(file) if isinstance(file, str) else file)
    named = file if isinstance(file, str) else graph.label
    own, other = _parameters(kernel), _parameters(graph)
    if own == other:
        return graph
    notes = tuple(
        f"{name}: {own.get(name, 'not there')} in {path}, {other.get(name, 'not there')} in {named}"
        for name in dict.fromkeys((*own, *other))
        if own.get(name) != other.get(name)
    )
    text = f"{named} has different parameters from {path}"
    hint = "--against takes a graph with the same inputs, outputs and symbols"
    raise AutofuseError([Diagnostic("AF5007", text, hint=hint, notes=notes)])


def _parameters(graph: FusionGraph) -> dict[str, str]:
    """Describe the parameters of a kernel in words."""
    inputs = {f"input {n}": n for n in graph.inputs}
    outputs = {f"output {o.name}": o.tensor for o in graph.outputs}
    tensors = {
        what: f"{graph.tensors[n].dtype.name}[{', '.join(map(str, graph.tensors[n].shape))}]"
        for what, n in (inputs | outputs).items()
    }
    return tensors | {f"symbol {s.label}": "a size" for s in graph.symbols}


def _copies(graph: FusionGraph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs, with copies of those that the kernel overwrites."""
    written = {o.inout for o in graph.outputs}
    return {n: a.copy() if n in written else a for n, a in inputs.items()}


def _without_slices(report: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in report.items() if k not in ("slices", "functions")}


def _save(
    outputs: Mapping[str, Any], timed: api.TimedRun | None, job: Mapping[str, Any]
) -> list[str]:
    """Write the requested outputs, traces and pages: all of them, or none."""
    files: dict[Path, writing.Content] = {}
    folder = None if job["save"] is None else Path(job["save"])
    if folder is not None:
        names = writing.file_names(outputs)
        files |= {folder / f"{names[n]}.npy": writing.array(a) for n, a in outputs.items()}
    if timed is not None:
        files |= {Path(p): writing.text(timed.trace()) for p in job.get("traces", ())}
        files |= {Path(p): writing.text(timed.page()) for p in job.get("pages", ())}
    writing.write_all(files, folder)
    return [str(p) for p in files]


def _given_arrays(graph: FusionGraph, files: Mapping[str, str]) -> dict[str, Any]:
    """Load arrays from .npy files.

    Raises:
        AutofuseError: AF5007 a name is not an input, or has another dtype; AF1001 a file cannot be read.
    """
    out: dict[str, Any] = {}
    problems: list[Diagnostic] = []
    for wanted, file in files.items():
        name = spelled(wanted, graph.inputs)
        if name not in graph.inputs:
            raise AutofuseError.of(
                "AF5007",
                f"{name} is not an input of {graph.label}",
                hint=f"its inputs are: {', '.join(graph.inputs)}",
            )
        out[name] = words.array(file)
        dtype = numpy_dtype(graph.tensors[name].dtype)
        if dtype.kind == "V" and out[name].dtype == np.dtype(f"V{dtype.itemsize}"):
            # NumPy has no name of its own for bfloat16, so files have bytes.
            out[name] = out[name].view(dtype)
        problems += wrong_dtype(graph.tensors[name], out[name])
    if problems:
        raise AutofuseError(problems)
    return out


def _sizes(
    graph: FusionGraph, given: Mapping[str, Any], symbols: Mapping[str, int]
) -> dict[str, int]:
    """Return a size per symbol: the requested one, else from the shapes of given arrays, else typical."""
    return sizes_with(graph, _fixed(graph, given, symbols))


def _fixed(
    graph: FusionGraph, given: Mapping[str, Any], symbols: Mapping[str, int]
) -> dict[str, int]:
    """Return the sizes that are requested, or determined by the shapes of given arrays."""
    symbols = symbol_sizes(graph.label, graph.symbol_labels(), symbols)
    fixed = {s for n in given for e in graph.tensors[n].shape for s in e.symbols()}
    part = replace(graph, symbols=tuple(s for s in graph.symbols if s.name in fixed | set(symbols)))
    return solve_symbols(part, {n: a.shape for n, a in given.items()}, symbols)
