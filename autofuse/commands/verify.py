"""``verify``: many graphs on the CPU twin, each against NumPy."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofuse.artifacts import MANIFEST, STAGE
from autofuse.commands.outcome import Outcome
from autofuse.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.report.console import progress
from autofuse.targets import load_target
from autofuse.twin.compile import toolchain, twin_files
from autofuse.twin.worker import Outcome as JobOutcome
from autofuse.twin.worker import WorkerPool

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["MAX_ELEMENTS", "STATES", "UNSUPPORTED", "verify"]

JOB = "autofuse.commands.jobs:verify_job"
#: A graph with a larger tensor is shrunk before it runs.
MAX_ELEMENTS = 1 << 20
STATES = ("passed", "failed", "not supported yet")
#: The op is not one of ours, or not compiled yet: the graph is beyond what autofuse does, not wrong.
UNSUPPORTED = frozenset({"AF1201", "AF2103"})
_LIKE_SCHEMAS = ".schema.json"


def verify(
    graphs: Sequence[Path],
    *,
    shapes: int,
    seed: int,
    jobs: int,
    target: str,
    symbolic: bool,
    split: bool,
    check: str,
    check_seed: int,
    quiet: bool,
) -> Outcome:
    """Build, run, compare; one row per graph."""
    load_target(target)
    toolchain()
    twin_files()
    paths = list(_graph_files(graphs))
    options = {
        "target": target,
        "shapes": shapes,
        "seed": seed,
        "max_elements": MAX_ELEMENTS,
        "symbolic": symbolic,
        "split": split,
        "check": check,
        "check_seed": check_seed,
    }
    items = [{"path": str(p), **options} for p in paths]
    workers = min(jobs or os.cpu_count() or 1, len(items))
    rows: list[dict[str, Any]] = []
    with (
        WorkerPool(JOB, workers=workers) as pool,
        progress("verify", len(items), show=not quiet and len(items) > 1) as tick,
    ):
        for outcome in pool.map(items):
            rows.append(_row(outcome))
            tick()
    counts = Counter(r["state"] for r in rows)
    found = {
        "graphs": rows,
        "counts": {s: counts[s] for s in STATES},
        "codes": dict(sorted(Counter(c for r in rows for c in r["codes"]).items())),
        "target": target,
        "seed": seed,
        "max_elements": MAX_ELEMENTS,
    }

    def show(screen: Console) -> None:
        from autofuse.report.verify_text import print_verify

        print_verify(screen, found)

    ok = counts["failed"] == 0 and counts["passed"] > 0
    return Outcome(found, show, _findings(rows), ok)


def _graph_files(words: Sequence[Path]) -> Iterator[Path]:
    """Files as they are; in folders every .json that may be a graph, and every .onnx.

    Raises:
        AutofuseError: AF1001, a word names nothing, or a folder without graphs.
    """
    seen: set[Path] = set()
    for word in words:
        found = _graphs_in(word) if word.is_dir() else [word]
        if not found or not found[0].exists():
            why = (
                "no graph file (*.json, *.onnx) is in it"
                if found == []
                else "there is no such file"
            )
            raise AutofuseError.of("AF1001", f"{word}: {why}", where=Where(path=str(word)))
        for p in found:
            if p not in seen:
                seen.add(p)
                yield p


def _graphs_in(folder: Path) -> list[Path]:
    found = (p for p in folder.rglob("*") if p.suffix in (".json", ".onnx"))
    return [p for p in sorted(found) if _may_be_graph(p, folder)]


def _may_be_graph(path: Path, root: Path) -> bool:
    """Not a schema, and not in a folder of generated files, finished or not."""
    inside = [p for p in path.parents if p == root or root in p.parents]
    return not path.name.endswith(_LIKE_SCHEMAS) and not any(
        (p / MANIFEST).is_file() or STAGE in p.name for p in inside
    )


def _row(outcome: JobOutcome) -> dict[str, Any]:
    """What became of one graph, with the worst comparison of each output."""
    row: dict[str, Any] = {
        "graph": outcome.item["path"],
        "seconds": round(outcome.seconds, 3),
        "keys": None,
        "parts": 1,
        "cases": 0,
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
            "shrunk": outcome.value["shrunk"],
            "outputs": _worst(report["cases"]),
        }
    elif all(d.code in UNSUPPORTED for d in outcome.diagnostics):
        state = "not supported yet"
    errors = [d["code"] for d in diagnostics if d["severity"] == "error"]
    return {**row, "state": state, "codes": sorted(set(errors)), "diagnostics": diagnostics}


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
    from autofuse.twin.worker import diagnostic_from_json

    return tuple(
        diagnostic_from_json(d if d.get("where", {}).get("path") else _placed(d, r["graph"]))
        for r in rows
        for d in r["diagnostics"]
        if r["state"] != "not supported yet" or len(rows) == 1
    )


def _placed(d: Mapping[str, Any], path: str) -> dict[str, Any]:
    return {**d, "where": {**d.get("where", {}), "path": path}}
