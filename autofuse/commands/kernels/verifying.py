"""``verify``: many graphs on the CPU twin, each against NumPy."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofuse.base import cache, knobs
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.base.edits import edited_files
from autofuse.bench.cluster import on_cluster
from autofuse.commands.graph_files import UNSUPPORTED, graph_files, is_built
from autofuse.commands.outcome import Outcome
from autofuse.frontends import read_graph
from autofuse.frontends.answers import checked_verification
from autofuse.gpu.loading import (
    CPU,
    INTERPRETED_ELEMENTS,
    checked_device,
    memory_limit,
    no_twin_options,
    only_on_cpu,
)
from autofuse.implgraph.ir.serialise import to_json
from autofuse.report.text.console import progress
from autofuse.results import read_folder
from autofuse.targets import GpuTarget, Target, TargetSpec, find_target
from autofuse.twin.run.compile import twin_files
from autofuse.twin.run.compiler import toolchain
from autofuse.twin.run.worker import Outcome as JobOutcome
from autofuse.twin.run.worker import WorkerPool
from autofuse.witness.devices import card_index
from autofuse.witness.kernel import check_chip
from autofuse.witness.nvcc import find_nvcc

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["MAX_ELEMENTS", "STATES", "verified_once", "verify"]

JOB = "autofuse.commands.kernels.jobs:verify_job"
#: A graph with a larger tensor is shrunk before it runs.
MAX_ELEMENTS = 1 << 20
STATES = ("passed", "failed", "not supported yet")


def verify(
    graphs: Sequence[Path],
    *,
    shapes: int,
    seed: int,
    jobs: int,
    target: str,
    symbolic: bool,
    split: bool,
    check: str | None,
    check_seed: int,
    device: str,
    quiet: bool,
    tuning: Path | None = None,
    against: Path | None = None,
    invariant: bool = False,
    scheduler: str | None = None,
) -> Outcome:
    """Build, run, compare; one row per graph.  ``check`` None: ``all``, where there is a twin.

    A folder that a build wrote is taken as it is, with what was edited in it; ``against`` is a graph file that says
    what it is to compute.  ``scheduler`` is the address of a Dask scheduler, whose workers build and run.
    """
    if tuning is not None:
        _only_tuned(graphs, {"--split": split, "--symbolic": symbolic, "--scheduler": scheduler})
    most, on_card = MAX_ELEMENTS, device != CPU
    spec = find_target(target)
    if not isinstance(spec, TargetSpec):
        no_twin_options({"--check": check, "--check-seed": check_seed})
    if isinstance(spec, GpuTarget):
        most = most if on_card else INTERPRETED_ELEMENTS
    elif isinstance(spec, TargetSpec) and card_index(device) is not None:
        check_chip(spec)
        no_twin_options({"--check": check, "--check-seed": check_seed})
    else:
        only_on_cpu(device)
    if scheduler is None:
        _needed_here(spec, device)
    paths = list(graph_files(graphs, built=True))
    edited = {str(p): [f.name for f in edited_files(p)] for p in paths if is_built(p)}
    if edited:
        remade = {"--split": split, "--symbolic": symbolic, "--invariant": invariant}
        _only_graphs(next(iter(edited)), remade)
    if against is not None and not (len(paths) == 1 and edited):
        text = "--against is for one folder, with a kernel that was edited"
        raise AutofuseError.of("AF5007", text, hint="a graph file says itself what it computes")
    options = {
        "target": target,
        "shapes": shapes,
        "seed": seed,
        "max_elements": most,
        "symbolic": symbolic,
        "split": split,
        "invariant": invariant,
        "check": check or "all",
        "check_seed": check_seed,
        "device": device,
        "tuning": None if tuning is None else str(tuning),
        "against": None if against is None else str(against),
    }
    items = [{"path": str(p), **options} for p in paths]
    with progress("verify", len(items), show=not quiet and len(items) > 1) as tick:
        outcomes = (
            _verified_here(items, jobs, device, tick)
            if scheduler is None
            else _verified_there(scheduler, items, device, tick)
        )
    rows = [{**row, "edited": edited.get(row["graph"], [])} for row in _rows(outcomes)]
    counts = Counter(r["state"] for r in rows)
    found = {
        "graphs": rows,
        "counts": {s: counts[s] for s in STATES},
        "codes": dict(sorted(Counter(c for r in rows for c in r["codes"]).items())),
        "target": target,
        "device": device,
        "seed": seed,
        "max_elements": most,
    }

    def show(screen: Console) -> None:
        from autofuse.report.text.kernels.verify import print_verify

        print_verify(screen, found)

    ok = counts["failed"] == 0 and counts["passed"] > 0
    return Outcome(found, show, _findings(rows), ok)


def _needed_here(spec: Target, device: str) -> None:
    """Raises AF5001, AF5007 where this machine does not have what compiles and runs the kernels."""
    if isinstance(spec, GpuTarget):
        checked_device(device)
    else:
        toolchain()
    if isinstance(spec, TargetSpec):
        twin_files()
        if device != CPU:
            find_nvcc()


def _verified_here(
    items: Sequence[Mapping[str, Any]], jobs: int, device: str, tick: Callable[[], object]
) -> list[JobOutcome]:
    # One process has the card to itself.
    workers = min(jobs or (1 if device != CPU else os.cpu_count()) or 1, len(items))
    pool = WorkerPool(JOB, workers=workers, memory_mb=memory_limit(device))
    if device != CPU:
        # A kernel that fails on a card takes it from its process.
        pool.jobs_per_worker = 1
    with cache.scratch() as claims, pool:
        return verified_once(pool, items, claims, tick)


def _verified_there(
    scheduler: str, items: Sequence[Mapping[str, Any]], device: str, tick: Callable[[], object]
) -> list[JobOutcome]:
    """On the workers of a scheduler, which get the graphs: they do not have the files."""
    outcomes: dict[int, JobOutcome] = {}
    sent: list[tuple[int, Mapping[str, Any]]] = []
    for i, item in enumerate(items):
        try:
            sent.append((i, {**item, **_sent(item)}))
        except AutofuseError as e:  # noqa: PERF203 - reading takes far longer
            outcomes[i] = JobOutcome(item, diagnostics=e.diagnostics)
            tick()
    limit = memory_limit(device)
    done = on_cluster(
        scheduler,
        JOB,
        [item for _, item in sent],
        timeout_s=float(knobs.VERIFY_TIMEOUT.get()),
        memory_mb=knobs.VERIFY_MEMORY_MB.get() if limit is None else limit,
    )
    for k, outcome in done:
        outcomes[sent[k][0]] = _checked(outcome)
        tick()
    return [outcomes[i] for i in range(len(items))]


def _sent(item: Mapping[str, Any]) -> dict[str, Any]:
    """What a worker of another host gets in place of files."""
    path, against = Path(item["path"]), item["against"]
    if not is_built(path):
        return {"graph": to_json(read_graph(path))}
    graph, files = read_folder(path)
    sent = {"graph": to_json(graph), "files": files, "against": None}
    if against is not None:
        sent["expected"] = to_json(read_graph(Path(against)))
    return sent


def _checked(outcome: JobOutcome) -> JobOutcome:
    """What a worker of another host answered, if it is an answer."""
    if not outcome.ok:
        return outcome
    try:
        return replace(outcome, value=checked_verification(outcome.value))
    except AutofuseError as e:
        return replace(outcome, value=None, diagnostics=e.diagnostics)


def _only_tuned(graphs: Sequence[Path], changed: Mapping[str, object]) -> None:
    """Raises AF5007 where a tuning file, which is for one graph as it is, cannot be meant."""
    if len(graphs) != 1 or graphs[0].is_dir():
        text = "a tuning file is for one graph"
        raise AutofuseError.of("AF5007", text, hint="--tuning goes with one graph file")
    for option, given in changed.items():
        if given:
            text = f"{option} does not go with a tuning file"
            raise AutofuseError.of("AF5007", text, hint=f"leave out {option}")


def _only_graphs(folder: str, changed: Mapping[str, bool]) -> None:
    """Raises AF5007 where a kernel would have to be built again, and the folder is taken as it is."""
    for option, given in changed.items():
        if given:
            text = f"{option} makes another kernel than that in {folder}"
            raise AutofuseError.of("AF5007", text, hint=f"leave out {option}, or name the graph")


def verified_once(
    pool: WorkerPool,
    items: Sequence[Mapping[str, Any]],
    claims: Path,
    tick: Callable[[], object] = lambda: None,
) -> list[JobOutcome]:
    """Outcomes in the order of the items; of kernels that are equal but for names, one is run.

    The others have no report, and the ``code`` of the one that has.  They are run after all where that one was lost,
    with its process, before it could say which code it had.

    Args:
        pool: workers with the job :data:`JOB`.
        items: as for that job.
        claims: an empty folder.
        tick: is called for every outcome.
    """
    outcomes = []
    for outcome in pool.map({**item, "claims": str(claims)} for item in items):
        outcomes.append(outcome)
        tick()
    ran = {o.value["code"] for o in outcomes if o.ok and o.value["report"] is not None}

    def is_left(o: JobOutcome) -> bool:
        return o.ok and o.value["report"] is None and o.value["code"] not in ran

    return [pool.run(item) if is_left(o) else o for item, o in zip(items, outcomes, strict=True)]


def _rows(outcomes: Sequence[JobOutcome]) -> list[dict[str, Any]]:
    """A row per graph; one that was not run has the verdict of the one that has the same code."""
    ran = {o.value["code"]: o for o in outcomes if o.ok and o.value["report"] is not None}
    rows = []
    for o in outcomes:
        other = ran[o.value["code"]] if o.ok and o.value["report"] is None else None
        row = _row(o if other is None else replace(other, item=o.item, seconds=o.seconds))
        rows.append({**row, "same_as": None if other is None else other.item["path"]})
    return rows


def _row(outcome: JobOutcome) -> dict[str, Any]:
    """What became of one graph, with the worst comparison of each output."""
    row: dict[str, Any] = {
        "graph": outcome.item["path"],
        "seconds": round(outcome.seconds, 3),
        "keys": None,
        "parts": 1,
        "cases": 0,
        "shapes": [],
        "shrunk": None,
        "outputs": [],
    }
    diagnostics = [d.to_json() for d in outcome.diagnostics]
    state = "failed"
    if outcome.ok:
        report = outcome.value["report"]
        diagnostics = report["diagnostics"]
        state = "passed" if report["ok"] else "failed"
        row |= {
            "keys": outcome.value["keys"],
            "parts": outcome.value["parts"],
            "cases": sum(c["status"] != "not applicable" for c in report["cases"]),
            "shapes": _shapes(report["cases"]),
            "shrunk": outcome.value["shrunk"],
            "outputs": _worst(report["cases"]),
        }
    elif all(d.code in UNSUPPORTED for d in outcome.diagnostics):
        state = "not supported yet"
    errors = [d["code"] for d in diagnostics if d["severity"] == "error"]
    return {**row, "state": state, "codes": sorted(set(errors)), "diagnostics": diagnostics}


def _shapes(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, int]]:
    """The sizes of symbols with which a kernel ran, each once, in the order of the runs."""
    out: list[dict[str, int]] = []
    for case in cases:
        if case["status"] != "not applicable" and case["symbols"] not in out:
            out.append(case["symbols"])
    return out


def _worst(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Per output the largest errors over all cases, and the first wrong element."""
    out: dict[str, dict[str, Any]] = {}
    for case in cases:
        for c in case["outputs"]:
            w = out.setdefault(c["output"], {**c, "cases": 0})
            w["cases"] += 1
            for k in ("max_abs", "max_rel", "max_ulp"):
                w[k] = max(w[k], c[k])
            if (c["wrong"] or c["unwritten"]) and not (w["wrong"] or w["unwritten"]):
                keep = ("elements", "wrong", "unwritten", "first", "got", "want", "tolerance")
                w |= {k: c[k] for k in keep}
    return list(out.values())


def _findings(rows: Sequence[Mapping[str, Any]]) -> tuple[Diagnostic, ...]:
    """Every diagnostic of every graph that did not pass, and warnings of those that did."""
    from autofuse.twin.run.worker import diagnostic_from_json

    return tuple(
        diagnostic_from_json(d if d.get("where", {}).get("path") else _placed(d, r["graph"]))
        for r in rows
        for d in r["diagnostics"]
        if r["state"] != "not supported yet" or len(rows) == 1
    )


def _placed(d: Mapping[str, Any], path: str) -> dict[str, Any]:
    return {**d, "where": {**d.get("where", {}), "path": path}}
