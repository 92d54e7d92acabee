"""``targets``, ``doctor``, ``knobs``: facts about chips and about this machine."""

from __future__ import annotations

import importlib.util
import os
import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from autofuse import __version__
from autofuse.base import cache, knobs
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.commands.outcome import Outcome
from autofuse.machines.gpu.ahead import probe
from autofuse.machines.npu.cann import bisheng, find_cann
from autofuse.machines.npu.device import CHIPS_JOB, Chip
from autofuse.machines.twin.run.compile import twin_files
from autofuse.machines.twin.run.compiler import toolchain
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.targets import (
    Target,
    cpu_names,
    find_target,
    gpu_names,
    load_chip,
    load_cpu,
    load_gpu,
    read_target,
    target_names,
)

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["doctor", "show_knobs", "targets", "twin_folder"]

#: Backend -> figures in the row of a target.
_SHOWN = {
    "ascendc": (
        *("name", "base", "soc", "npu_arch", "experimental", "checked", "aiv_cores", "ub_bytes"),
        *("clock_mhz", "l2_bytes", "gm_bandwidth_gbs", "l2_bandwidth_gbs"),
    ),
    "triton": (
        *("name", "backend", "dialect", "experimental", "checked", "multiprocessors", "clock_mhz"),
        *("l2_bytes", "copy_gbs", "ub_bytes"),
    ),
    "cpu": ("name", "backend", "experimental", "checked", "cores", "simd_bytes", "cache_bytes"),
}
_DRIVER_SECONDS = 60.0


def targets(name: str | None) -> Outcome:
    """List all targets, also chips that only the cost model knows, or all figures of one, by name or file."""
    from autofuse.report.text import tables

    if name is not None:
        # Includes chips that only the cost model knows.
        spec: Target = (
            read_target(name)
            if name.endswith(".toml")
            else load_chip(name)
            if name in target_names()
            else find_target(name)
        )
        row = {**_target_row(spec), "figures": [asdict(f) for f in spec.figures()]}
        return Outcome(row, lambda screen: tables.print_target(screen, row))
    chips = [_target_row(load_chip(n)) for n in target_names()]
    gpus = [_target_row(load_gpu(n)) for n in gpu_names()]
    cpus = [_target_row(load_cpu(n)) for n in cpu_names()]

    def show(screen: Console) -> None:
        tables.print_targets(screen, chips)
        tables.print_gpus(screen, gpus)
        tables.print_cpus(screen, cpus)
        screen.print("All figures of a target, with sources: autofuse targets NAME", style="dim")

    return Outcome({"targets": chips, "gpus": gpus, "cpus": cpus}, show)


def _target_row(spec: Target) -> dict[str, object]:
    row = {name: getattr(spec, name) for name in _SHOWN[spec.backend]}
    return {k: v for k, v in row.items() if k != "base" or v}


def doctor() -> Outcome:
    """Check for everything that a verb may need."""
    from autofuse.report.text import tables

    rows = [
        _row("autofuse", "ok", f"{__version__}, Python {platform.python_version()}"),
        _compiler(),
        _twin(),
        *_cann(),
        _triton(),
        _cache(),
    ]
    ok = all(r["status"] in ("ok", "optional") for r in rows)

    def show(screen: Console) -> None:
        tables.print_doctor(screen, rows)

    return Outcome({"checks": rows}, show, tuple(knobs.unknown()), ok)


def twin_folder() -> Outcome:
    """Print the twin's folder, alone on a line, for the CMake project of a build."""
    folder = twin_files().include[0].parent

    def show(screen: Console) -> None:
        screen.print(str(folder), soft_wrap=True)

    return Outcome({"twin_dir": str(folder)}, show)


def show_knobs() -> Outcome:
    """List every environment variable with its current value."""
    from autofuse.report.text import tables

    rows = [
        {
            "name": k.name,
            "value": os.environ.get(k.name, ""),
            "set": k.name in os.environ,
            "default": k.default_text(),
            "doc": k.doc,
        }
        for k in knobs.KNOBS
    ]
    return Outcome(
        {"knobs": rows}, lambda screen: tables.print_knobs(screen, rows), tuple(knobs.unknown())
    )


def _row(what: str, status: str, found: str, hint: str = "") -> dict[str, object]:
    return {"what": what, "status": status, "found": found, "hint": hint}


def _compiler() -> dict[str, object]:
    try:
        found = toolchain()
    except AutofuseError as e:
        return _missing("C++ compiler", e)
    return _row("C++ compiler", "ok", f"{found.version} ({found.path})")


def _twin() -> dict[str, object]:
    try:
        found = twin_files()
    except AutofuseError as e:
        return _missing("CPU twin", e)
    if importlib.util.find_spec("autofuse._twin") is None:
        return _row("CPU twin", "missing", "the module autofuse._twin", "reinstall autofuse")
    return _row("CPU twin", "ok", str(found.library))


def _missing(what: str, error: AutofuseError) -> dict[str, object]:
    first = error.diagnostics[0]
    return _row(what, "missing", first.message, first.hint)


def _cann() -> list[dict[str, object]]:
    """Return rows on CANN, the driver and the chips."""
    hint = "only needed to compile for the chip: install the CANN toolkit and source its set_env.sh"
    try:
        cann = find_cann()
    except AutofuseError as e:
        home = os.environ.get("ASCEND_HOME_PATH", "")
        found = bisheng()
        if found is None:
            text = f"no bisheng in {home}" if home else "ASCEND_HOME_PATH is not set"
            first, why = _row("CANN", "optional", text, hint), "needs CANN"
        else:
            first, why = _row("CANN", "ok", str(found)), e.diagnostics[0].message
        return [first, *(_row(what, "optional", why) for what in ("driver", "chips"))]
    release = " ".join(filter(None, [cann.release, "(a fake)" if cann.is_fake else ""]))
    first = _row("CANN", "ok", ", ".join(filter(None, [release, str(cann.bisheng)])))
    return [first, *_chips()]


def _chips() -> list[dict[str, object]]:
    """Return rows on the driver and the chips, from another process because a driver may hang or crash."""
    with WorkerPool(CHIPS_JOB, workers=1, timeout_s=_DRIVER_SECONDS) as pool:
        outcome = pool.run(None)
    if not outcome.ok:
        first = outcome.diagnostics[0]
        return [_row(w, "optional", first.message, first.hint) for w in ("driver", "chips")]
    found = [Chip(**row) for row in outcome.value]
    drivers = sorted({c.driver for c in found} - {""})
    hint = "only needed to run kernels on a chip: `npu-smi info` shows whether the driver sees it"
    texts = [
        ", ".join(
            [
                c.label,
                *([f"target {c.target}"] if c.target else ["not an autofuse target"]),
                *([f"{counted(c.cores, 'core')}"] if c.cores else []),
                *([f"{c.clock_mhz} MHz"] if c.clock_mhz else []),
                f"{c.memory_bytes >> 30} GiB",
            ]
        )
        for c in found
    ]
    return [
        _row("driver", "ok", ", ".join(drivers))
        if drivers
        else _row("driver", "optional", "npu-smi does not report its version"),
        _row("chips", "ok", "; ".join(texts))
        if found
        else _row("chips", "optional", "the driver sees no device", hint),
    ]


def _triton() -> dict[str, object]:
    try:
        found = ", ".join(f"{name} {version(name)}" for name in ("triton", "torch"))
    except PackageNotFoundError as e:
        hint = "only needed to run kernels for GPUs: pip install 'ascend-autofuse[gpu]'"
        return _row("Triton", "optional", f"{e.name} is not installed", hint)
    # A wheel has several assemblers: only compiling a kernel shows that the right one is used.
    cards = {t.capability for t in map(load_gpu, gpu_names()) if t.dialect == "cuda"}
    try:
        made = [probe(capability) for capability in sorted(cards)]
    except AutofuseError as e:
        first = e.diagnostics[0]
        return _row("Triton", "broken", f"{found}: {first.message}", first.hint)
    able = ", ".join(f"{m.assembler} assembles for {m.arch}" for m in made)
    return _row("Triton", "ok", f"{found}; {able}")


def _cache() -> dict[str, object]:
    try:
        held = cache.info()
    except AutofuseError as e:
        return _missing("cache", e)
    used, limit = held.bytes >> 20, held.limit_bytes >> 20
    return _row(
        "cache", "ok", f"{held.path}: {counted(held.entries, 'kernel')}, {used} of {limit} MiB"
    )
