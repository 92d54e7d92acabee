"""``build``: the files of a kernel, or of several, on disk, compiled where CANN is installed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofuse import api
from autofuse.commands.machine import bisheng
from autofuse.commands.outcome import Outcome
from autofuse.diagnostics import AutofuseError, Where

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["build"]

DEFAULT_FOLDER = Path("autofuse-out")
#: The preset of the generated CMake project that compiles for the chip.
PRESET = "ascend"
_COMPILE_TIMEOUT_S = 900


def build(
    graph: Path,
    output: Path | None,
    *,
    target: str,
    entry: str = "launch",
    ub_bytes: int | None = None,
    split: bool = False,
    force: bool,
) -> Outcome:
    """Generate, write, compile if possible; with ``split`` several kernels where one is not enough."""
    result: api.BuildResult | api.SplitResult
    if split:
        whole = api.build_split(graph, target=target, entry=entry, ub_bytes=ub_bytes)
        result = whole if whole.split is not None else whole.parts[0]
    else:
        result = api.build(graph, target=target, entry=entry, ub_bytes=ub_bytes)
    folder = output if output is not None else DEFAULT_FOLDER / result.name
    written = result.write(folder, force=force)
    found = {
        **result.summary(),
        "folder": str(folder),
        "written": {
            k: list(getattr(written, k)) for k in ("created", "updated", "unchanged", "removed")
        },
        "compiled": _compile(folder, entry),
        "next": f"autofuse verify {graph}{' --split' if split else ''}",
    }

    def show(screen: Console) -> None:
        from autofuse.report.build_text import print_build, print_split

        (print_split if "parts" in found else print_build)(screen, found)

    return Outcome(found, show)


def _compile(folder: Path, entry: str) -> Mapping[str, Any]:
    """Compile for the chip; without CANN, say that nothing was compiled."""
    if entry == "op-package":
        return {"done": False, "why": "generated, not compiled: the op package's project builds it"}
    compiler = bisheng()
    if compiler is None:
        return {
            "done": False,
            "why": "generated, not compiled: there is no CANN here (ASCEND_HOME_PATH with bisheng)",
        }
    for command in (["cmake", "--preset", PRESET], ["cmake", "--build", "--preset", PRESET]):
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_COMPILE_TIMEOUT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as e:
            raise _failed(command, folder, str(e), []) from e
        if done.returncode != 0:
            lines = (done.stdout + done.stderr).strip().splitlines()[-20:]
            raise _failed(command, folder, f"exit status {done.returncode}", lines)
    return {"done": True, "compiler": str(compiler), "folder": str(folder / "build" / PRESET)}


def _failed(command: list[str], folder: Path, why: str, lines: list[str]) -> AutofuseError:
    return AutofuseError.of(
        "AF5002",
        f"the files were generated, but `{' '.join(command)}` failed: {why}",
        where=Where(path=str(folder)),
        hint="repeat the command in that folder; unset ASCEND_HOME_PATH to generate only",
        notes=lines,
    )
