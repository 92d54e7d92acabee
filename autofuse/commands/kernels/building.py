"""``build``: writes the files of one or several kernels, and compiles them if CANN is installed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofuse import api
from autofuse.base.cann import COMMAND_SECONDS, PRESET, PRESET_COMMANDS, first_failure
from autofuse.base.collecting import collect_rarely
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.edits import blamed, stale_findings
from autofuse.commands.graph_files import UNSUPPORTED, graph_files
from autofuse.commands.outcome import Outcome
from autofuse.commands.words import target_option
from autofuse.machines.npu.cann import bisheng
from autofuse.targets import find_target
from autofuse.tracing import tracing

if TYPE_CHECKING:
    from rich.console import Console

    from autofuse.machines.twin.run.worker import Outcome as JobOutcome

__all__ = [
    "DEFAULT_FOLDER",
    "build",
    "build_job",
    "build_many",
    "build_rows",
    "compile_project",
    "only_of_flows",
]

DEFAULT_FOLDER = Path("autofuse-out")
#: Seconds for one graph of a folder.
_GRAPH_TIMEOUT_S = 2 * COMMAND_SECONDS + 100
#: Graphs per worker process: a build leaves no state, and starting a process costs as much as many builds.
_GRAPHS_PER_WORKER = 5_000
_JOB = "autofuse.commands.kernels.building:build_job"
_STATES = ("built", "failed", "not supported yet")


def build(
    graph: Path,
    output: Path | None,
    *,
    target: str,
    entry: str = "launch",
    ub_bytes: int | None = None,
    split: bool = False,
    invariant: bool = False,
    tuning: Path | None = None,
    backward: Path | None = None,
    partition: bool | None = None,
    force: bool,
    quiet: bool = False,
    verbose: bool = False,
) -> Outcome:
    """Generate, write, and compile if possible; with ``split`` into several kernels if one does not suffice.

    The output lists every file if ``verbose``.

    An ONNX model that cannot be read as one kernel is partitioned, unless ``partition`` is False; with True every model
    is.
    """
    from autofuse.commands.kernels import models

    if models.is_model(
        graph,
        partition,
        refused={
            "--split": split,
            "--tuning": tuning,
            "--invariant": invariant,
            "--backward": backward,
        },
    ):
        return models.build_model(
            graph,
            output if output is not None else DEFAULT_FOLDER / graph.stem,
            target=target,
            entry=entry,
            ub_bytes=ub_bytes,
            force=force,
            quiet=quiet,
            verbose=verbose,
            compiled=partial(compile_project, target=target),
        )
    if split and tuning is not None:
        text = "--tuning is for GPU kernels, which --split does not divide"
        raise AutofuseError.of("AF5007", text, hint="leave out --split")
    if split and backward is not None:
        text = "--backward needs a single kernel, but --split may make several"
        raise AutofuseError.of("AF5007", text, hint="leave out --split")
    folder, found = _built(
        graph, output, target, entry, ub_bytes, split, force, invariant, tuning, backward
    )
    fixed = " --invariant" if invariant else ""
    tuned = "" if tuning is None else f" --tuning {tuning}"
    found |= {
        "compiled": compile_project(folder, entry, target),
        "next": f"autofuse verify {graph}{target_option(target)}{' --split' if split else ''}{fixed}{tuned}",
    }

    def show(screen: Console) -> None:
        from autofuse.report.text.kernels.build import print_build, print_split

        show_one = print_split if "parts" in found else print_build
        show_one(screen, found, verbose=verbose)

    return Outcome(found, show, stale_findings(folder, found["stale"]))


def _built(
    graph: Path,
    output: Path | None,
    target: str,
    entry: str,
    ub_bytes: int | None,
    split: bool,
    force: bool,
    invariant: bool,
    tuning: Path | None = None,
    backward: Path | None = None,
) -> tuple[Path, dict[str, Any]]:
    """Return the folder with the files of a graph, and the build."""
    result: api.BuildResult | api.SplitResult
    options: dict[str, Any] = {
        "target": target,
        "entry": entry,
        "ub_bytes": ub_bytes,
        "invariant": invariant,
    }
    with tracing(target) as trace:
        if split:
            whole = api.observed_split(graph, trace.observe, **options)
            result = whole if whole.split is not None else whole.parts[0]
        else:
            result = api.observed(graph, trace.observe, **options, tuning=tuning, backward=backward)
        folder = output if output is not None else DEFAULT_FOLDER / result.name
        written = result.write(folder, force=force)
        trace.folder = folder
    found = {
        **result.summary(),
        "folder": str(folder),
        "written": {
            k: list(getattr(written, k))
            for k in ("created", "updated", "unchanged", "removed", "kept")
        },
        "stale": list(written.stale),
    }
    return folder, found


def only_of_flows(given: Mapping[str, object]) -> None:
    """Raise AF5007 for the first given option: these are only for flows."""
    for option, value in given.items():
        if value is not None:
            text = f"{option} is for the JSON of a flow, but no flow is given"
            raise AutofuseError.of("AF5007", text, hint="add --flow akg")


def build_many(
    graphs: Path,
    output: Path | None,
    *,
    target: str,
    entry: str = "launch",
    ub_bytes: int | None = None,
    split: bool = False,
    invariant: bool = False,
    force: bool,
    jobs: int,
    quiet: bool,
) -> Outcome:
    """Run :func:`build` for every graph file of a folder, in worker processes; a failure does not stop the others.

    The files of ``FOLDER/a/b.json`` are written into ``OUTPUT/a/b``.

    Raises:
        AutofuseError: AF1001 there is no graph, AF5006 the target is unknown.
    """
    find_target(target)
    options = {
        "target": target,
        "entry": entry,
        "ub_bytes": ub_bytes,
        "split": split,
        "invariant": invariant,
        "force": force,
    }
    return build_rows(graphs, output, _JOB, options, target=target, jobs=jobs, quiet=quiet)


def build_rows(
    graphs: Path,
    output: Path | None,
    job: str,
    options: Mapping[str, Any],
    *,
    target: str | None,
    jobs: int,
    quiet: bool,
) -> Outcome:
    """Build every graph file of a folder by a job, in worker processes.

    Args:
        graphs: the folder.
        output: where to write.
        job: ``package.module:function``, which takes ``path``, ``output`` and the options, and returns what
            :func:`build_job` does.
        options: options for all graphs.
        target: as on the command line; None: each graph names its own.
        jobs: concurrent graphs; 0: one per core.
        quiet: show no progress.

    Raises:
        AutofuseError: AF1001 there is no graph.
    """
    from autofuse.machines.twin.run.worker import WorkerPool
    from autofuse.report.text.console import progress

    paths = list(graph_files([graphs]))
    items = [
        {"path": str(p), "output": str(o), **options}
        for p, o in zip(paths, _folders(paths, graphs, output or DEFAULT_FOLDER), strict=True)
    ]
    rows: list[dict[str, Any]] = []
    findings: list[Diagnostic] = []
    with (
        WorkerPool(
            job,
            workers=min(jobs or os.cpu_count() or 1, len(items)),
            timeout_s=_GRAPH_TIMEOUT_S,
            jobs_per_worker=_GRAPHS_PER_WORKER,
        ) as pool,
        progress("build", len(items), show=not quiet and len(items) > 1) as tick,
    ):
        for outcome in pool.map(items):
            row = _row(outcome)
            rows.append(row)
            if outcome.ok:
                findings += stale_findings(Path(row["folder"]), outcome.value.get("stale", ()))
            if row["state"] == "failed":
                findings += (_placed(d, row["graph"]) for d in outcome.diagnostics)
            tick()
    counts = Counter(r["state"] for r in rows)
    found = {
        "graphs": rows,
        "counts": {s: counts[s] for s in _STATES},
        "codes": dict(sorted(Counter(c for r in rows for c in r["codes"]).items())),
        "target": target,
        "folder": str(output or DEFAULT_FOLDER),
    }

    def show(screen: Console) -> None:
        from autofuse.report.text.kernels.build import print_builds

        print_builds(screen, found)

    ok = counts["failed"] == 0 and counts["built"] > 0
    return Outcome(found, show, tuple(findings), ok)


def _folders(paths: Sequence[Path], root: Path, output: Path) -> list[Path]:
    """Return the folder of each graph: its path without the suffix, or with it where two graphs would collide."""
    inside = [p.relative_to(root) for p in paths]
    often = Counter(p.with_suffix("") for p in inside)
    return [output / (p if often[p.with_suffix("")] > 1 else p.with_suffix("")) for p in inside]


def build_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Build one graph of :func:`build_many`, in a worker.

    Args:
        job: ``path``, ``output`` (the folder of its files), and the options of :func:`build`.

    Returns:
        ``name``, ``keys`` (number of tiling keys, over all kernels), ``parts`` (number of kernels), ``written`` (number
        of files by outcome), ``stale`` (see ``artifacts.Written``), ``compiled``, ``seconds``.
    """
    collect_rarely()
    names = ("target", "entry", "ub_bytes", "split", "force", "invariant")
    options = [job[name] for name in names]
    folder, found = _built(Path(job["path"]), Path(job["output"]), *options)
    parts = found.get("parts", [found])
    return {
        "name": found["name"],
        "keys": sum(len({t["key"] for t in p["templates"]}) for p in parts),
        "parts": len(parts),
        "written": {k: len(names) for k, names in found["written"].items()},
        "stale": found["stale"],
        "compiled": compile_project(folder, job["entry"], job["target"])["done"],
        "seconds": sum(found["seconds"].values()),
    }


def _row(outcome: JobOutcome) -> dict[str, Any]:
    """Return the outcome of one graph as a row."""
    value = outcome.value or {}
    codes = {d.code for d in outcome.diagnostics}
    state = "built" if outcome.ok else "not supported yet" if codes <= UNSUPPORTED else "failed"
    return {
        "graph": outcome.item["path"],
        "state": state,
        "folder": outcome.item["output"] if outcome.ok else None,
        **{k: value.get(k) for k in ("name", "keys", "parts", "written", "compiled", "seconds")},
        "codes": sorted(codes),
        "diagnostics": [d.to_json() for d in outcome.diagnostics],
    }


def _placed(d: Diagnostic, path: str) -> Diagnostic:
    """Return the diagnostic, with the graph file if it names none."""
    where = d.where or Where()
    return d if where.path else replace(d, where=replace(where, path=path))


def compile_project(folder: Path, entry: str, target: str) -> Mapping[str, Any]:
    """Compile for the chip; without CANN, for Triton or for a CPU, say that nothing was compiled."""
    spec = find_target(target)
    why = {
        "cpu": "generated: the first lines of the file say how to compile it",
        "triton": "generated: Triton compiles each kernel on its first call",
    }.get(spec.backend)
    if why is not None:
        return {"done": False, "why": why}
    if entry == "op-package":
        return {
            "done": False,
            "why": "generated, not compiled: with CANN, build.sh there makes the package",
        }
    if entry == "torch":
        return {
            "done": False,
            "why": f"generated, not compiled: pip install --no-build-isolation {folder}",
        }
    compiler = bisheng()
    if compiler is None:
        return {
            "done": False,
            "why": "generated, not compiled: there is no CANN here (ASCEND_HOME_PATH with bisheng)",
        }
    failure = first_failure(PRESET_COMMANDS, folder)
    if failure is not None:
        with blamed(folder):
            raise AutofuseError.of(
                "AF5002",
                f"the files were generated, but `{failure.command}` failed: {failure.why}",
                where=Where(path=str(folder)),
                hint="repeat the command in that folder; unset ASCEND_HOME_PATH to generate only",
                notes=failure.lines,
            )
    return {"done": True, "compiler": str(compiler), "folder": str(folder / "build" / PRESET)}
