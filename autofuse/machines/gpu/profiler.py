"""Counters of a card, read by Nsight Compute (``ncu``) while kernels of another process run.

That process marks the relevant kernels with :func:`part`. ``ncu`` runs each of them several times, with cleared caches.
"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from autofuse.base import programs
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.visible import visible
from autofuse.implgraph.ir.frozen import frozen

__all__ = ["Counted", "counters", "part", "parts_of"]

_PROGRAM = "ncu"
#: Marker kernel launched by :func:`part`, which separates the kernels of two parts.
_BETWEEN = "spin_kernel"
_SHOWN = 500


@frozen
class Counted:
    """Counters of a kernel that ran.

    Attributes:
        name: name of its function.
        values: values of the metrics, in the requested order.
    """

    name: str
    values: tuple[float, ...]


@contextmanager
def part() -> Iterator[None]:
    """Count the kernels that start in this context, in a process started by :func:`counters`."""
    import torch

    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    runtime.cudaProfilerStart()
    torch.cuda._sleep(1)  # type: ignore[no-untyped-call]
    yield
    torch.cuda.synchronize()
    runtime.cudaProfilerStop()


def counters(arguments: Sequence[str], metrics: Sequence[str], folder: Path) -> list[list[Counted]]:
    """Run Python under the profiler and return the counters of its parts.

    Args:
        arguments: arguments of Python.
        metrics: ``ncu``'s names.
        folder: the working directory, also searched for modules.

    Returns:
        The kernels of every completed part, in order.

    Raises:
        AutofuseError: AF5001, there is no ``ncu``; AF5003, the process failed, or the counters cannot be read.
    """
    program = programs.program(_PROGRAM)
    if program is None:
        text = f"{_PROGRAM}, Nsight Compute of the CUDA toolkit, is not in PATH"
        raise AutofuseError.of("AF5001", text, hint="it is needed to read the counters of a card")
    command = [
        *(program, "--csv", "--page=raw", "--print-units=base", f"--metrics={','.join(metrics)}"),
        *("--profile-from-start=off", "--clock-control=none", "--target-processes=all"),
        *(sys.executable, *arguments),
    ]
    ran = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        cwd=folder,
        env=programs.environment(),
        text=True,
        errors="replace",
    )
    if ran.returncode or '"ID"' not in ran.stdout:
        said = visible(ran.stdout.strip()[-_SHOWN:]) or "nothing"
        text = f"{_PROGRAM} exited with status {ran.returncode} and counted nothing: {said}"
        raise AutofuseError.of("AF5003", text)
    return list(parts_of(ran.stdout, metrics))


def parts_of(text: str, metrics: Sequence[str]) -> Iterator[list[Counted]]:
    """Parse the kernels of every part from the output of ``ncu``: its own lines, then CSV with units after the head."""
    kernels: list[Counted] | None = None
    for line in csv.DictReader(io.StringIO(text[text.index('"ID"') :])):
        if not line["ID"].isdigit():
            continue
        name = line["Kernel Name"].partition("(")[0]
        if _BETWEEN in name:
            if kernels is not None:
                yield kernels
            kernels = []
        elif kernels is not None:
            kernels.append(Counted(name, tuple(float(line[m].replace(",", "")) for m in metrics)))
    if kernels is not None:
        yield kernels
