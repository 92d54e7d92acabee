"""``run``: a kernel once, on the CPU twin, beside NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofuse.commands import words
from autofuse.commands.outcome import Outcome
from autofuse.diagnostics import AutofuseError, Diagnostic
from autofuse.twin.worker import WorkerPool

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["run"]

JOB = "autofuse.commands.jobs:run_job"

#: Names of traces that are written as pages.
PAGE_SUFFIXES = (".html", ".htm")


def run(
    graph: Path,
    *,
    shapes: Sequence[str],
    seed: int,
    key: int | None,
    inputs: Sequence[str],
    save: Path | None,
    split: bool,
    target: str,
    check: str,
    check_seed: int,
    trace: Path | None = None,
    page: Path | None = None,
) -> Outcome:
    """Run in a worker process and show how far each output is from NumPy's.

    ``trace`` and ``page`` are files that timed mode writes; a trace whose name ends in .html is a page.
    """
    traces: list[Path] = []
    pages = [] if page is None else [page]
    if trace is not None:
        (pages if trace.suffix.lower() in PAGE_SUFFIXES else traces).append(trace)
    job = {
        "path": str(graph),
        "target": target,
        "split": split,
        "seed": seed,
        "key": key,
        "symbols": words.sizes(shapes, "--shape"),
        "inputs": words.pairs(inputs, "--input"),
        "save": None if save is None else str(save),
        "check": check,
        "check_seed": check_seed,
        "traces": [str(p) for p in traces],
        "pages": [str(p) for p in pages],
    }
    with WorkerPool(JOB, workers=1) as pool:
        outcome = pool.run(job)
    if not outcome.ok:
        raise AutofuseError(outcome.diagnostics)
    found: dict[str, Any] = outcome.value
    found["saved"] += [str(p) for p in (*traces, *pages)]
    ok = all(row["ok"] for row in found["outputs"])

    def show(screen: Console) -> None:
        from autofuse.report.verify_text import print_run

        print_run(screen, found)

    return Outcome(found, show, _differences(found), ok)


def _differences(found: Mapping[str, Any]) -> tuple[Diagnostic, ...]:
    return tuple(
        Diagnostic(
            "AF6001",
            f"{r['wrong']} of {r['elements']} elements of output {r['output']} differ from NumPy",
            notes=(f"first at {r['first']}: {r['got']}, expected {r['want']}",),
        )
        for r in found["outputs"]
        if not r["ok"]
    )
