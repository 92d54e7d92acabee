"""``build --flow akg``: the files that AKG's command generates from a graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofuse.base import reading
from autofuse.base.cann import PRESET
from autofuse.base.collecting import collect_rarely
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.akg import flow
from autofuse.clients.akg.models import DEFAULT_KEYS
from autofuse.commands.kernels.building import DEFAULT_FOLDER, build_rows, compile_project
from autofuse.commands.outcome import Outcome
from autofuse.commands.words import target_option

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["build_akg", "build_akg_job"]

_JOB = "autofuse.commands.kernels.akg:build_akg_job"
#: Kind of target -> producer of the binary.
_COMPILERS = {"cpu": "the C++ compiler", "gpu": "Triton"}


def build_akg(
    graph: Path,
    output: Path | None,
    *,
    target: str | None,
    keys: str | None,
    ub_bytes: int | None,
    tuning: Path | None,
    refused: Mapping[str, object],
    force: bool,
    jobs: int,
    quiet: bool,
    verbose: bool,
) -> Outcome:
    """Write the files of a flow for a graph, or for every graph of a folder.

    Args:
        graph: the file, or a folder of them.
        output: the output folder; None: a new one.
        target: AKG's name or ours of a target; None: as in each info file.
        keys: the set of keys of the JSON; None: the default.
        ub_bytes: bytes of UB that a kernel may use.
        tuning: a tuning file, for one graph and a GPU.
        refused: option -> its value, for options that flows do not support; no value means not given.
        force: overwrite files that were edited or not written by autofuse.
        jobs: concurrent graphs; 0: one per core.
        quiet: show no progress.
        verbose: list every file.

    Raises:
        AutofuseError: as :func:`autofuse.clients.akg.flow.build`; AF5005, the folder cannot be written; AF5007,
            an option does not apply.
    """
    for option, value in refused.items():
        if value is not None and value is not False:
            text = f"{option} does not apply to --flow akg, which makes one kernel like AKG"
            raise AutofuseError.of("AF5007", text, hint=f"leave out {option}, or --flow akg")
    if target is not None:
        flow.find(target)
    options: dict[str, Any] = {
        "target": target,
        "keys": keys or DEFAULT_KEYS,
        "ub_bytes": ub_bytes,
    }
    if graph.is_dir():
        if tuning is not None:
            text = "a tuning file is for one graph"
            raise AutofuseError.of("AF5007", text, hint="give --tuning with a single graph file")
        options["force"] = force
        return build_rows(graph, output, _JOB, options, target=target, jobs=jobs, quiet=quiet)
    found = _built(graph, output, **options, tuning=tuning, force=force)

    def show(screen: Console) -> None:
        from autofuse.report.text.kernels.akg import print_flow

        print_flow(screen, found, verbose=verbose)

    return Outcome(found, show)


def _built(
    graph: Path,
    output: Path | None,
    *,
    target: str | None,
    keys: str,
    ub_bytes: int | None,
    force: bool,
    tuning: Path | None = None,
) -> dict[str, Any]:
    """Write the files of a graph and return what was built."""
    result = flow.build(graph, target=target, keys=keys, ub_bytes=ub_bytes, tuning=tuning)
    name = result.built.name
    folder = output if output is not None else DEFAULT_FOLDER / name
    written = result.write(folder, force=force)
    compiled: Mapping[str, Any]
    if result.kind != "ascend":
        compiled = {"done": True, "compiler": _COMPILERS[result.kind], "folder": str(folder)}
    else:
        compiled = compile_project(folder, "launch", result.built.target.name)
        library = folder / "build" / PRESET / f"lib{name}.so"
        if compiled["done"] and library.is_file():
            result = result.with_library(reading.sha256(library))
            written = result.write(folder, force=force)
    return {
        **result.summary(),
        "folder": str(folder),
        "written": {
            k: list(getattr(written, k)) for k in ("created", "updated", "unchanged", "removed")
        },
        "compiled": compiled,
        "next": f"autofuse verify {graph}{target_option(result.built.target.name)}",
    }


def build_akg_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Build one graph of a folder, in a worker.

    Args:
        job: ``path``, ``output`` (the folder of its files), and the options of :func:`_built`.

    Returns:
        As :func:`autofuse.commands.build.build_job`.
    """
    collect_rarely()
    options = {k: job[k] for k in ("target", "keys", "ub_bytes", "force")}
    found = _built(Path(job["path"]), Path(job["output"]), **options)
    return {
        "name": found["name"],
        "keys": len({t["key"] for t in found["templates"]}),
        "parts": max(1, len(found["launches"])),
        "written": {k: len(names) for k, names in found["written"].items()},
        "compiled": found["compiled"]["done"],
        "seconds": sum(found["seconds"].values()),
    }
