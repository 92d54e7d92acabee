"""``run``: runs a kernel once on the CPU twin and compares it with NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.base.wording import differing
from autofuse.commands import words
from autofuse.commands.kernels import models
from autofuse.commands.outcome import Outcome
from autofuse.commands.writing import keep_inputs
from autofuse.machines.twin.run.worker import WorkerPool, diagnostic_from_json
from autofuse.machines.words import CPU, memory_limit

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["run"]

JOB = "autofuse.commands.kernels.jobs:run_job"

#: Hint for a kernel in a folder that differs from its graph on purpose.
EDITED = (
    "if the kernel was edited to compute something else: --against GRAPH_FILE, with its new graph"
)

#: Suffixes of traces that are written as pages.
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
    check: str | None,
    check_seed: int,
    device: str = CPU,
    against: Path | None = None,
    trace: Path | None = None,
    page: Path | None = None,
    partition: bool | None = None,
    invariant: bool = False,
    tuning: Path | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    quiet: bool = False,
) -> Outcome:
    """Run in a worker process and show the difference of each output from NumPy's.

    An ONNX model that cannot be read as one kernel is partitioned, unless ``partition`` is False; with True every model
    is. It is compared with ``onnx.reference`` by the tolerances ``rtol`` and ``atol``.

    ``tuning`` is a tuning file for the kernel.
    ``against`` is a graph file of the expected outputs, for a kernel that was edited by hand.
    ``check`` None means ``fast``, if there is a twin.
    ``trace`` and ``page`` are output files of timed mode; a trace whose name ends in .html is a page.
    """
    one_kernel = {
        "--key": key,
        "--against": against,
        "--trace": trace,
        "--html": page,
        "--split": split,
        "--invariant": invariant,
        "--tuning": tuning,
    }
    if invariant and graph.is_dir():
        text = f"--invariant would make a different kernel from the one in {graph}"
        raise AutofuseError.of("AF5007", text, hint="build it with --invariant")
    if models.is_model(graph, partition, refused=one_kernel):
        return models.run_model(
            graph,
            shapes=shapes,
            seed=seed,
            inputs=inputs,
            save=save,
            target=target,
            check=check,
            check_seed=check_seed,
            device=device,
            rtol=models.RTOL if rtol is None else rtol,
            atol=models.ATOL if atol is None else atol,
            quiet=quiet,
        )
    if rtol is not None or atol is not None:
        text = "--rtol and --atol are for ONNX models of several regions"
        hint = "a kernel is compared with NumPy, within rounding-error bounds of its ops"
        raise AutofuseError.of("AF5007", text, hint=hint)
    if tuning is not None and (split or graph.is_dir()):
        text = "a tuning file is for one kernel that is built from a graph file"
        hint = (
            "leave out --tuning: a folder already has its tilings or blocks, and --split takes none"
        )
        raise AutofuseError.of("AF5007", text, hint=hint)
    data = words.pairs(inputs, "--input")
    traces, pages = _wanted(trace, page)
    for path in (*traces, *pages):
        keep_inputs(
            path, {"the graph": graph, **{f"--input {n}": Path(f) for n, f in data.items()}}
        )
    job = {
        "path": str(graph),
        "target": target,
        "split": split,
        "invariant": invariant,
        "tuning": None if tuning is None else str(tuning),
        "seed": seed,
        "key": key,
        "symbols": words.sizes(shapes, "--shape"),
        "inputs": data,
        "save": None if save is None else str(save),
        "check": check,
        "check_seed": check_seed,
        "device": device,
        "against": None if against is None else str(against),
        "traces": [str(p) for p in traces],
        "pages": [str(p) for p in pages],
    }
    with WorkerPool(JOB, workers=1, memory_mb=memory_limit(device)) as pool:
        outcome = pool.run(job)
    if not outcome.ok:
        raise AutofuseError(outcome.diagnostics)
    found: dict[str, Any] = outcome.value
    ok = all(row["ok"] for row in found["outputs"])

    def show(screen: Console) -> None:
        from autofuse.report.text.kernels.verify import print_run

        print_run(screen, found)

    edited = graph.is_dir() and against is None
    faults = tuple(map(diagnostic_from_json, found["faults"]))
    hint = EDITED if edited and not faults else ""
    return Outcome(found, show, (*faults, *_differences(found, hint)), ok and not faults)


def _wanted(trace: Path | None, page: Path | None) -> tuple[list[Path], list[Path]]:
    """Return the files for traces, and those for pages.

    Raises:
        AutofuseError: AF1005, one file is named for both.
    """
    if trace is None:
        return [], [] if page is None else [page]
    if trace.suffix.lower() in PAGE_SUFFIXES:
        return [], list(dict.fromkeys(p for p in (trace, page) if p is not None))
    if page is None:
        return [trace], []
    if page.resolve() == trace.resolve():
        text = f"--trace and --html name the same file, {trace}"
        hint = "a trace is JSON, a page is HTML; give each its own name"
        raise AutofuseError.of("AF1005", text, hint=hint)
    return [trace], [page]


def _differences(found: Mapping[str, Any], hint: str) -> tuple[Diagnostic, ...]:
    return tuple(
        Diagnostic(
            "AF6001",
            differing(r["wrong"], r["elements"], f"output {r['output']}"),
            notes=(f"first at {r['first']}: {r['got']}, expected {r['want']}",),
            hint=hint,
        )
        for r in found["outputs"]
        if not r["ok"]
    )
