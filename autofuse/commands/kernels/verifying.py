"""``verify``: compares many graphs on the CPU twin with NumPy."""

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
from autofuse.commands import words
from autofuse.commands.graph_files import UNSUPPORTED, graph_files, is_built
from autofuse.commands.kernels.answers import checked_verification
from autofuse.commands.outcome import Outcome
from autofuse.frontends import read_graph
from autofuse.implgraph.ir.serialise import to_json
from autofuse.machines.machine import Machine, machine_for, refuse_others
from autofuse.machines.twin.run.worker import Outcome as JobOutcome
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.words import card_index, memory_limit
from autofuse.measure.bench.cluster import on_cluster
from autofuse.report.text.console import progress
from autofuse.results import read_folder
from autofuse.targets import find_target

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
    sizes: Sequence[str] = (),
    inputs: Sequence[str] = (),
    tuning: Path | None = None,
    against: Path | None = None,
    invariant: bool = False,
    scheduler: str | None = None,
) -> Outcome:
    """Build, run and compare; one row per graph. ``check`` None means ``all``, if there is a twin.

    A folder that a build wrote is taken as it is, with its edits; ``against`` is a graph file of the expected results.
    ``scheduler`` is the address of a Dask scheduler, whose workers build and run. ``sizes`` (SYMBOL=N) and ``inputs``
    (NAME=FILE) are for a single graph; missing ones are chosen.
    """
    symbols, data = words.sizes(sizes, "--shape"), words.pairs(inputs, "--input")
    if tuning is not None:
        _only_tuned(graphs, {"--split": split, "--symbolic": symbolic, "--scheduler": scheduler})
    spec = find_target(target)
    machine = machine_for(spec.backend, device)
    refuse_others(machine, {"--check": check, "--check-seed": check_seed})
    if scheduler is None:
        machine.needs(device, spec)
    most = machine.most_elements(device) or MAX_ELEMENTS
    paths = list(graph_files(graphs, built=True))
    _only_one(paths, {"--shape": symbols, "--input": data}, scheduler)
    edited = {str(p): [f.name for f in edited_files(p)] for p in paths if is_built(p)}
    if edited:
        remade = {"--split": split, "--symbolic": symbolic, "--invariant": invariant}
        _only_graphs(next(iter(edited)), remade)
    if against is not None and not (len(paths) == 1 and edited):
        text = "--against is for one folder with an edited kernel"
        raise AutofuseError.of("AF5007", text, hint="a graph file already defines its computation")
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
        "symbols": symbols,
        "inputs": data,
    }
    items = [{"path": str(p), **options} for p in paths]
    with progress("verify", len(items), show=not quiet and len(items) > 1) as tick:
        outcomes = (
            _verified_here(items, jobs, machine, device, tick)
            if scheduler is None
            else _verified_there(scheduler, items, memory_limit(device), tick)
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


def _verified_here(
    items: Sequence[Mapping[str, Any]],
    jobs: int,
    machine: Machine,
    device: str,
    tick: Callable[[], object],
) -> list[JobOutcome]:
    on_card = card_index(device) is not None  # one process owns the device
    workers = min(jobs or (1 if on_card else os.cpu_count()) or 1, len(items))
    pool = WorkerPool(JOB, workers=workers, memory_mb=memory_limit(device))
    if on_card:
        # A kernel that fails on a card makes it unusable for its process.
        pool.jobs_per_worker = 1
    with cache.scratch() as claims, pool:
        return verified_once(pool, items, claims, tick)


def _verified_there(
    scheduler: str,
    items: Sequence[Mapping[str, Any]],
    limit: int | None,
    tick: Callable[[], object],
) -> list[JobOutcome]:
    """Verify on the workers of a scheduler, which receive the graphs because they lack the files."""
    outcomes: dict[int, JobOutcome] = {}
    sent: list[tuple[int, Mapping[str, Any]]] = []
    for i, item in enumerate(items):
        try:
            sent.append((i, {**item, **_sent(item)}))
        except AutofuseError as e:  # noqa: PERF203 - reading takes far longer
            outcomes[i] = JobOutcome(item, diagnostics=e.diagnostics)
            tick()
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
    """Return the graphs and texts sent to a worker of another host in place of files."""
    path, against = Path(item["path"]), item["against"]
    if not is_built(path):
        return {"graph": to_json(read_graph(path))}
    graph, files = read_folder(path)
    sent = {"graph": to_json(graph), "files": files, "against": None}
    if against is not None:
        sent["expected"] = to_json(read_graph(Path(against)))
    return sent


def _checked(outcome: JobOutcome) -> JobOutcome:
    """Return the answer of a worker of another host, checked against its schema."""
    if not outcome.ok:
        return outcome
    try:
        return replace(outcome, value=checked_verification(outcome.value))
    except AutofuseError as e:
        return replace(outcome, value=None, diagnostics=e.diagnostics)


def _only_tuned(graphs: Sequence[Path], changed: Mapping[str, object]) -> None:
    """Raise AF5007 if a tuning file, which is for one unchanged graph, does not apply."""
    if len(graphs) != 1 or graphs[0].is_dir():
        text = "a tuning file is for one graph"
        raise AutofuseError.of("AF5007", text, hint="give --tuning with a single graph file")
    for option, given in changed.items():
        if given:
            text = f"{option} cannot be combined with a tuning file"
            raise AutofuseError.of("AF5007", text, hint=f"leave out {option}")


def _only_one(
    paths: Sequence[Path], given: Mapping[str, Mapping[str, object]], scheduler: str | None
) -> None:
    """Raise AF5007 if sizes or data of one graph are given for several."""
    for option in (o for o, found in given.items() if found):
        if len(paths) != 1:
            text = f"{option} is for one graph, but there are {len(paths)}"
            raise AutofuseError.of(
                "AF5007", text, hint="name one graph file, or one folder of a kernel"
            )
        if option == "--input" and scheduler is not None:
            text = "--input names files on this machine, but --scheduler runs on others"
            raise AutofuseError.of("AF5007", text, hint="leave out one of them")


def _only_graphs(folder: str, changed: Mapping[str, bool]) -> None:
    """Raise AF5007 if a kernel would have to be rebuilt, since the folder is taken as it is."""
    for option, given in changed.items():
        if given:
            text = f"{option} would make a different kernel from the one in {folder}"
            raise AutofuseError.of("AF5007", text, hint=f"leave out {option}, or name the graph")


def verified_once(
    pool: WorkerPool,
    items: Sequence[Mapping[str, Any]],
    claims: Path,
    tick: Callable[[], object] = lambda: None,
) -> list[JobOutcome]:
    """Return outcomes in the order of the items; among kernels that differ only in names, one is run.

    The others have no report, and the ``code`` of the one that ran. They are run after all if that one died with its
    process before reporting its code.

    Args:
        pool: workers with the job :data:`JOB`.
        items: as for that job.
        claims: an empty folder.
        tick: called for every outcome.
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
    """Return a row per graph; a graph that was not run has the verdict of the one with the same code."""
    ran = {o.value["code"]: o for o in outcomes if o.ok and o.value["report"] is not None}
    rows = []
    for o in outcomes:
        other = ran[o.value["code"]] if o.ok and o.value["report"] is None else None
        row = _row(o if other is None else replace(other, item=o.item, seconds=o.seconds))
        rows.append({**row, "same_as": None if other is None else other.item["path"]})
    return rows


def _row(outcome: JobOutcome) -> dict[str, Any]:
    """Return the outcome of one graph as a row, with the worst comparison of each output."""
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
    """Return the distinct symbol sizes of a kernel's runs, in order."""
    out: list[dict[str, int]] = []
    for case in cases:
        if case["status"] != "not applicable" and case["symbols"] not in out:
            out.append(case["symbols"])
    return out


def _worst(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return, per output, the largest errors over all cases, and the first wrong element."""
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
    """Return all diagnostics of graphs that did not pass, and the warnings of those that did."""
    from autofuse.machines.twin.run.worker import diagnostic_from_json

    return tuple(
        diagnostic_from_json(d if d.get("where", {}).get("path") else _placed(d, r["graph"]))
        for r in rows
        for d in r["diagnostics"]
        if r["state"] != "not supported yet" or len(rows) == 1
    )


def _placed(d: Mapping[str, Any], path: str) -> dict[str, Any]:
    return {**d, "where": {**d.get("where", {}), "path": path}}
