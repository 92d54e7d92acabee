"""Pipe activity of a chip's cores during a kernel, from the counters that ``msprof`` reads.

The kernel runs in its own process under the profiler, whose operator table is read afterwards.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
import signal
import statistics
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autofuse.base import cache, programs, reading
from autofuse.base.arguments import integer
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.visible import visible
from autofuse.implgraph.ir.dtypes import numpy_dtype
from autofuse.machines.npu.kernel import NpuKernel
from autofuse.machines.twin.run.worker import worker_command
from autofuse.machines.twin.verify.verify import pack, unpack

__all__ = ["PIPES", "Counters", "counters", "profiled_job", "read_table"]

#: Name of a pipe in timed mode -> columns of the profiler.
PIPES = {"scalar": "scalar", "V": "vec", "MTE2": "mte2", "MTE3": "mte3"}
_JOB = "autofuse.machines.npu.counters:profiled_job"
_MAX_RUNS = 1000
_MAX_ROWS = 1_000_000
_SECONDS = 300
#: Names of one column in several releases of the profiler.
_NAME = ("Op Name", "Name", "OP Name")
_DURATION = ("Task Duration(us)", "Duration(us)")
_CORES = ("Block Dim", "Block Num")


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of a graph; times are medians over its launches, summed over its kernels.

    Attributes:
        launches: number of counted launches.
        us: microseconds of a launch.
        cores: cores of the launch; 0 if the profiler does not report them.
        pipes_us: pipe -> busy microseconds, summed over the cores as by the profiler.
    """

    launches: int
    us: float
    cores: int
    pipes_us: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Return all attributes by name."""
        return {**asdict(self), "pipes_us": dict(self.pipes_us)}


def counters(
    kernel: NpuKernel,
    inputs: Mapping[str, Any],
    *,
    repeats: int = 5,
    symbols: Mapping[str, int] | None = None,
    key: int | None = None,
    cores: int = 0,
) -> Counters | None:
    """Run a kernel under the profiler.

    Args:
        kernel: the kernel.
        inputs: as for :meth:`NpuKernel.run`; they are not modified.
        repeats: launches.
        symbols: as there.
        key: as there.
        cores: as there.

    Returns:
        The counters; None if CANN has no ``msprof``, or it reports nothing for the kernel.

    Raises:
        AutofuseError: AF5012, the profiler or the kernel under it fails.
    """
    repeats = integer("repeats", repeats, 1, _MAX_RUNS)
    msprof = kernel.cann.msprof
    if msprof is None:
        return None
    options = {
        "device": f"npu:{kernel.chip.index}",
        "repeats": repeats,
        "timeout": kernel.timeout,
        "call": {"symbols": dict(symbols or {}), "key": key, "cores": cores},
        "shapes": {n: np.shape(inputs[n]) for n in kernel.graph.inputs},
    }
    with cache.scratch() as folder:
        for i, name in enumerate(kernel.graph.inputs):
            dtype = numpy_dtype(kernel.graph.tensors[name].dtype)
            np.ascontiguousarray(np.asarray(inputs[name], dtype=dtype)).tofile(folder / f"input{i}")
        payload = pack((kernel.files, kernel.graph, {**options, "folder": str(folder)}))
        job = folder / "job"
        job.write_text(f'"{payload}"\n', encoding="ascii")
        words = [_JOB, "0", str(_SECONDS), "0", str(job)]
        output = folder / "profile"
        command = [str(msprof), f"--output={output}", "--aic-metrics=PipeUtilization"]
        said = _run([*command, *worker_command(words)], folder)
        if not (folder / "done").is_file():
            raise AutofuseError.of(
                "AF5012",
                f"the kernel did not finish under {msprof.name}",
                hint="the kernel may still run without the profiler: `autofuse bench` without counters",
                notes=[visible(x) for x in said[-8:]],
            )
        rows = [r for path in _tables(output) for r in read_table(path)]
    own = [[r for r in rows if _is_of(r[0], name)] for name in kernel.launched]
    if not all(own):
        return None
    return Counters(
        min(map(len, own)),
        sum(statistics.median(r[1] for r in of) for of in own),
        max(of[0][2] for of in own),
        {p: sum(statistics.median(r[3][p] for r in of) for of in own) for p in PIPES},
    )


def _is_of(launched: str, name: str) -> bool:
    """Return True if a name in the table is the kernel's; some releases append a tiling key."""
    return launched == name or re.fullmatch(rf"{re.escape(name)}_[0-9a-f_]+", launched) is not None


def profiled_job(payload: str) -> None:
    """Launch a kernel repeatedly, in the profiled process."""
    files, graph, options = unpack(payload)
    folder = Path(options["folder"])
    arrays = {
        name: np.fromfile(folder / f"input{i}", numpy_dtype(graph.tensors[name].dtype)).reshape(
            options["shapes"][name]
        )
        for i, name in enumerate(graph.inputs)
    }
    kernel = NpuKernel(files, graph, options["device"], timeout=options["timeout"])
    for _ in range(options["repeats"]):
        kernel.run(arrays, **options["call"])
    (folder / "done").touch()


def read_table(path: Path) -> Iterator[tuple[str, float, int, dict[str, float]]]:
    """Read the profiler's operator table; rows are name, microseconds, cores, microseconds by pipe.

    Rows of other than vector kernels, and entries that are not numbers, are omitted.

    Raises:
        OSError: it cannot be read.
        ValueError: it is too large.
    """
    text = reading.content(path).decode("utf-8-sig", errors="replace")
    for number, row in enumerate(csv.DictReader(io.StringIO(text))):
        if number >= _MAX_ROWS:
            return
        us = _number(row, _DURATION)
        pipes = {p: _number(row, (f"aiv_{c}_time(us)",)) for p, c in PIPES.items()}
        found = {p: v for p, v in pipes.items() if v is not None}
        if us is not None and len(found) == len(pipes):
            name = next((row[c] for c in _NAME if row.get(c)), "")
            yield name.strip(), us, int(_number(row, _CORES) or 0), found


def _number(row: Mapping[str, str | None], columns: tuple[str, ...]) -> float | None:
    for column in columns:
        try:
            value = float((row.get(column) or "").strip())
        except (ValueError, AttributeError):
            continue
        if math.isfinite(value) and 0.0 <= value < 1e12:
            return value
    return None


def _tables(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("op_summary_*.csv") if p.is_file() and not p.is_symlink())


def _run(command: list[str], folder: Path) -> list[str]:
    """Run the profiler and return the lines that it printed; kill all its processes if it takes too long."""
    log = folder / "log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=programs.environment(),
            start_new_session=True,
        ) as p,
    ):
        try:
            p.wait(_SECONDS)
        except BaseException as e:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            if not isinstance(e, subprocess.TimeoutExpired):
                raise
    return log.read_bytes()[-10_000:].decode("utf-8", errors="replace").splitlines()
