"""``build`` and ``run`` for ONNX models of several regions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autofuse.base import cache
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.commands import words, writing
from autofuse.commands.outcome import Outcome
from autofuse.frontends.onnx import looks_like_onnx
from autofuse.implgraph.ir.dtypes import numpy_dtype
from autofuse.machines.machine import machine_for, machine_of, refuse_others
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.words import memory_limit
from autofuse.report.text.console import progress
from autofuse.results import read_folder
from autofuse.targets import find_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from autofuse.clients.onnx.models import KernelCall, ModelResult
    from autofuse.clients.onnx.models.calls import Called

__all__ = ["ATOL", "RTOL", "build_model", "is_model", "kernel_job", "run_model"]

#: Default tolerances of ``run``.
RTOL, ATOL = 1e-3, 1e-5
_JOB = "autofuse.commands.kernels.models:kernel_job"
#: Bytes of a file that identify its format.
_HEAD = 16


def is_model(graph: Path, partition: bool | None, *, refused: Mapping[str, object]) -> bool:
    """Return True if a graph file is an ONNX model of several regions.

    Args:
        graph: the file.
        partition: as on the command line; None: it depends on the model.
        refused: option -> its value, for options that such a model does not support; no value means not given.

    Raises:
        AutofuseError: AF5007, incompatible options; AF1001, the folder that ``build`` wrote for a model; any error of
            reading the model.
    """
    if graph.is_dir() and any(graph.glob("*.model.json")) and partition is not False:
        text = f"{graph} holds the kernels of a model, but not its data"
        hint = f"give the model, or one of the folders in {graph / 'kernels'}"
        raise AutofuseError.of("AF1001", text, where=Where(str(graph)), hint=hint)
    given = [n for n, value in refused.items() if value is not None and value is not False]
    if partition is False or (partition is None and given):
        return False
    try:
        with graph.open("rb") as f:
            head = f.read(_HEAD)
    except OSError:
        head = b""  # the graph reader reports the error
    is_onnx = looks_like_onnx(head, str(graph)) and not graph.is_dir()
    if partition and not is_onnx:
        text = f"--partition is for ONNX models; {graph} is not one"
        raise AutofuseError.of("AF5007", text, where=Where(str(graph)))
    if partition and given:
        text = f"{given[0]} needs a single kernel; --partition makes several"
        raise AutofuseError.of("AF5007", text, hint=f"leave out {given[0]}")
    if not is_onnx or not head:
        return False
    from autofuse.clients.onnx.models import is_partitioned

    return is_partitioned(graph, partition)


def build_model(
    model: Path,
    output: Path,
    *,
    target: str,
    entry: str,
    ub_bytes: int | None,
    force: bool,
    quiet: bool,
    verbose: bool,
    compiled: Callable[[Path, str], Mapping[str, Any]],
) -> Outcome:
    """Partition, generate and write; compile every kernel if possible.

    Args:
        model: the file.
        output: the output folder.
        target: the chip, the GPU or the CPU.
        entry: how kernels get their tiling data.
        ub_bytes: UB that a kernel may use.
        force: overwrite files that were edited or not written by autofuse.
        quiet: show no progress.
        verbose: list the folder of every kernel.
        compiled: compiles the kernel in a folder for the chip.
    """
    result = _built(model, target, entry=entry, ub_bytes=ub_bytes, quiet=quiet)
    written = result.write(output, force=force)
    found = {
        **result.summary(),
        "folder": str(output),
        "written": {
            k: list(getattr(written, k)) for k in ("created", "updated", "unchanged", "removed")
        },
    }
    done = [compiled(output / k["folder"], entry) for k in found["kernels"]]
    found["compiled"] = next((d for d in done if not d["done"]), done[0] if done else None)
    found["next"] = f"autofuse run {model}{words.target_option(target)}"

    def show(screen: Console) -> None:
        from autofuse.report.text.kernels.model import print_model_build

        print_model_build(screen, found, verbose=verbose)

    return Outcome(found, show)


def _built(
    model: Path,
    target: str,
    *,
    entry: str = "launch",
    ub_bytes: int | None = None,
    quiet: bool,
) -> ModelResult:
    from autofuse.clients.onnx import models

    with progress("build", 1, show=not quiet) as tick:
        return models.build(
            model, target=target, entry=entry, ub_bytes=ub_bytes, progress=tick.reach
        )


def run_model(
    model: Path,
    *,
    shapes: Sequence[str],
    seed: int,
    inputs: Sequence[str],
    save: Path | None,
    target: str,
    check: str | None,
    check_seed: int,
    device: str,
    rtol: float,
    atol: float,
    quiet: bool,
) -> Outcome:
    """Run a model and compare it with ``onnx.reference``; kernels run in a process of their own.

    ``check`` None means ``fast``, if there is a twin.
    """
    from autofuse.clients.onnx import models

    spec = find_target(target)
    machine = machine_for(
        spec.backend
    )  # Ascend C kernels use the twin, which refuses another device
    machine.needs(device, spec)
    refuse_others(machine, {"--check": check, "--check-seed": check_seed})

    sizes = words.sizes(shapes, "--shape")
    arrays = {n: words.array(f) for n, f in words.pairs(inputs, "--input").items()}
    start = time.perf_counter()
    built = _built(model, target, quiet=quiet)
    ready = time.perf_counter()
    with (
        cache.scratch() as folder,
        WorkerPool(_JOB, workers=1, memory_mb=memory_limit(device)) as pool,
        progress("run", len(built.steps), show=not quiet) as tick,
    ):
        built.write(folder / "model")
        done = models.run(
            built,
            arrays,
            sizes=sizes,
            seed=seed,
            rtol=rtol,
            atol=atol,
            call=_calls(
                built,
                folder,
                pool,
                {"check": check or "fast", "check_seed": check_seed, "device": device},
            ),
            progress=tick.reach,
        )
    saved = [] if save is None else _saved(done.outputs, save)
    found: dict[str, Any] = {
        "name": built.pieces.label,
        "target": built.target.name,
        "runs_on": machine.label(device),
        "counts": built.manifest["counts"],
        **done.to_json(),
        "saved": saved,
        "seconds": {"build": ready - start, "run": time.perf_counter() - ready},
    }

    def show(screen: Console) -> None:
        from autofuse.report.text.kernels.model import print_model_run

        print_model_run(screen, found)

    return Outcome(found, show, done.diagnostics, done.ok)


def _saved(outputs: Mapping[str, Any], folder: Path) -> list[str]:
    """Write outputs to files, named by identifiers because tensor names may not be file names."""
    names = writing.file_names(outputs)
    files = {folder / f"{names[o]}.npy": writing.array(a) for o, a in outputs.items()}
    writing.write_all(files, folder)
    return [str(p) for p in files]


# kernels in another process -------------------------------------------------------------------


def _calls(
    built: ModelResult, folder: Path, pool: WorkerPool, how: Mapping[str, Any]
) -> KernelCall:
    """Calls kernels in a worker, with arrays in files; ``how``: members of the job with the options of a run."""
    from autofuse.clients.onnx.models.calls import Called
    from autofuse.clients.onnx.models.result import kernel_folder

    def call(name: str, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> Called:
        graph = built.kernels[name].graph
        given = {}
        for k, (n, a) in enumerate(arrays.items()):
            np.ascontiguousarray(a).tofile(folder / f"in_{k}")
            given[n] = list(np.shape(a))
        job = {
            "kernel": str(folder / "model" / kernel_folder(name)),
            "files": str(folder),
            "inputs": given,
            "symbols": dict(sizes),
            **how,
        }
        outcome = pool.run(job)
        if not outcome.ok:
            raise AutofuseError(_of(d, name) for d in outcome.diagnostics)
        value = outcome.value
        outputs = {
            o.name: _read(
                folder / f"out_{k}", graph.tensors[o.tensor].dtype, value["outputs"][o.name]
            )
            for k, o in enumerate(graph.outputs)
        }
        return Called(outputs, value["bytes_moved"], value["seconds"])

    return call


def _of(d: Diagnostic, kernel: str) -> Diagnostic:
    """Return a worker's diagnostic with the kernel in its notes."""
    return replace(d, notes=(*d.notes, f"kernel: {kernel}"))


def kernel_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Call a kernel once, in a worker.

    Args:
        job: ``kernel`` (a generated folder), ``files`` (the folder with its operands, ``in_<number>``, and for its
            results, ``out_<number>``: bare elements), ``inputs`` (name -> shape), ``symbols``, ``check``,
            ``check_seed``, ``device``.

    Returns:
        ``outputs`` (name -> shape), ``bytes_moved``, ``seconds``.
    """
    from autofuse.clients.onnx.models.calls import called

    folder = Path(job["files"])
    kernel = _kernel(job["kernel"], job["check"], job["check_seed"], job["device"])
    tensors = kernel.graph.tensors
    arrays = {
        n: _read(folder / f"in_{k}", tensors[n].dtype, s)
        for k, (n, s) in enumerate(job["inputs"].items())
    }
    done: Called = called(kernel, arrays, job["symbols"])
    for k, a in enumerate(done.outputs.values()):
        np.ascontiguousarray(a).tofile(folder / f"out_{k}")
    return {
        "outputs": {n: list(a.shape) for n, a in done.outputs.items()},
        "bytes_moved": done.bytes_moved,
        "seconds": done.seconds,
    }


@lru_cache(maxsize=64)
def _kernel(folder: str, check: str, check_seed: int, device: str) -> Any:
    graph, files = read_folder(Path(folder))
    # This process is a worker already.
    machine = machine_of(files, graph, device)
    return machine.open(files, graph, device, check=check, check_seed=check_seed)


def _read(path: Path, dtype: Any, shape: Sequence[int]) -> Any:
    return np.fromfile(path, np.uint8).view(numpy_dtype(dtype)).reshape(shape)
