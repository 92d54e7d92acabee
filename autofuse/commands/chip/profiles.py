"""``import-msprof``: imports times of autofuse's kernels from a user's profile into the store of ``bench``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autofuse.base.artifacts import MANIFEST
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.wording import counted
from autofuse.commands.graph_files import graph_files, is_built
from autofuse.commands.outcome import Outcome
from autofuse.commands.writing import keep_inputs
from autofuse.measure.bench.importing import Imported, imported
from autofuse.measure.bench.profiles import read_profile
from autofuse.measure.bench.results import read_results
from autofuse.measure.bench.store import append_results
from autofuse.measure.bench.subjects import Subject, subject_of
from autofuse.targets import ascend_chip, find_target

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["import_msprof"]


def import_msprof(
    tables: Sequence[Path], *, graphs: Sequence[Path], target: str, out: Path | None
) -> Outcome:
    """Read operator tables, recognise kernels by their names, and add their times to a store.

    ``graphs`` are graph files, folders of them, and folders that ``build`` wrote. ``target`` is the profiled chip,
    which a table does not name.

    Raises:
        AutofuseError: a table, a graph or the store cannot be read; AF5005, the store cannot be written.
    """
    spec = ascend_chip(find_target(target))
    if out is not None:
        for table in tables:
            keep_inputs(out, {"the table": table})
        if out.exists():
            read_results(out)
    subjects, findings = _subjects(graphs, target)
    found: list[Imported] = []
    fake = False
    for table in tables:
        profile = read_profile(table)
        fake = fake or profile.fake
        found.append(imported(profile, subjects, chip=spec.soc, target=spec.name))
    records = [m for f in found for m in f.records]
    written = append_results(out, records) if out is not None and records else None
    taken = sum(f.taken for f in found)
    total = sum(f.total for f in found)
    result = {
        "rows": [
            {
                "name": m.kernel.name,
                "graph": graph or None,
                "sizes": dict(m.sizes),
                "cores": m.cores,
                "samples": len(m.times_us),
                "measured_us": m.median_us,
                "modelled_us": m.modelled_us,
                "counters": dict(m.counters),
            }
            for f in found
            for m, graph in zip(f.records, f.graphs, strict=True)
        ],
        "total": total,
        "taken": taken,
        "left": total - taken,
        "chip": spec.soc,
        "fake": fake,
        "out": None if written is None else str(written),
    }
    if not records:
        hint = "name the kernels' graph files, or the folders that build wrote, with --graphs"
        where = Where(str(tables[0]))
        text = f"none of the {counted(total, 'row')} belongs to an autofuse kernel"
        findings.append(Diagnostic("AF1403", text, where, hint))

    def show(screen: Console) -> None:
        from autofuse.report.text.chip.bench import print_import

        print_import(screen, result)

    return Outcome(result, show, tuple(findings), bool(records))


def _subjects(graphs: Sequence[Path], target: str) -> tuple[list[Subject], list[Diagnostic]]:
    """Build the kernels of graphs; a failure is a warning, since the kernel may be in the table anyway."""
    found: list[Subject] = []
    notes: list[Diagnostic] = []
    for word in graphs:
        for path in [word] if is_built(word) else [*_folders(word), *_files(word)]:
            try:
                found.append(subject_of(path, target))
            except AutofuseError as e:  # noqa: PERF203 - building takes far longer
                if path == word:
                    raise
                d = e.diagnostics[0]
                where = Where(str(path))
                notes.append(
                    Diagnostic(d.code, d.message, where, "the graph is ignored", severity="note")
                )
    return found, notes


def _folders(word: Path) -> list[Path]:
    """Return the folders of kernels in a folder."""
    return sorted(p.parent for p in word.rglob(MANIFEST)) if word.is_dir() else []


def _files(word: Path) -> list[Path]:
    try:
        return list(graph_files([word]))
    except AutofuseError:
        if word.is_dir() and _folders(word):
            return []
        raise
