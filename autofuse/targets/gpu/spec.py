"""Reads ``*.toml`` of this folder into :class:`GpuTarget`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from autofuse.targets.figures import Figure, figure, made, parsed, read_figures, target_files
from autofuse.targets.spec import load_chip, unknown_target

__all__ = ["GpuTarget", "from_driver", "gpu_names", "load_gpu"]

#: Dialect -> figures that its targets lack.
_LACKS = {
    "cuda": ("ub_bytes",),
    "ascend": (
        "capability",
        "registers",
        "threads",
        "shared_bytes",
        "late_us",
        "meet_us",
        "alone_gbs",
        "waste_bytes",
        "thread_registers",
    ),
}
#: Name of a figure in the data of an Ascend chip -> its name here.
_OF_CHIP = {
    "aiv_cores": "multiprocessors",
    "ub_bytes": "ub_bytes",
    "vector.binary.rate32": "fp32_lanes",
    "clock_mhz": "clock_mhz",
    "l2_bytes": "l2_bytes",
    "l2_bandwidth_gbs": "l2_gbs",
    "kernel_head_us": "launch_us",
}
#: Share of the peak of its memory that a copy reaches: 3,006 of 3,352 GB/s on an H100.
_COPY_SHARE = 0.9
#: FP32 lanes of a multiprocessor by compute capability, if not 128.
_FP32_LANES = {60: 64, 70: 64, 72: 64, 75: 64, 80: 64}
#: Ratio of the L2 rate to the copy rate, as on an H100.
_L2_FACTOR = 1.8
#: The target whose figures replace those that no driver reports.
_LIKE = "nvidia-h100"


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """A device that Triton compiles for. A figure that the dialect lacks is 0.

    Attributes:
        name: as passed to ``load_gpu``.
        backend: the folder of ``codegen.backends`` that writes its kernels.
        dialect: ``cuda``: a grid of any size, whose programs may wait for each other; ``ascend``: a grid of cores with
            a loop inside, whose programs may not wait.
        experimental: kernels for this target may change more than others do.
        checked: a sentence without its full stop: how the generated code was checked, and whether it ran on silicon.
        chip: the name of the Ascend chip; empty for ``cuda``.
        capability: compute capability, ten times the major number plus the minor one; ``cuda`` only.
        multiprocessors: multiprocessors (SM), or vector cores.
        registers: 32-bit registers of a multiprocessor.
        threads: resident threads of a multiprocessor.
        shared_bytes: shared memory of a multiprocessor, in bytes.
        l2_bytes: bytes of L2.
        fp32_lanes: float32 additions of a multiprocessor per cycle.
        clock_mhz: highest clock of the multiprocessors.
        copy_gbs: rate of a copy larger than L2, bytes read and written, 1e9 B/s.
        l2_gbs: rate of reads that L2 serves, 1e9 B/s.
        launch_us: microseconds of an empty kernel on the device.
        late_us: microseconds per value that a thread loads when its registers are full, of the time model.
        meet_us: microseconds of a cluster barrier, of the model.
        alone_gbs: memory rate that one multiprocessor reaches alone, 1e9 B/s, of the model.
        waste_bytes: extra bytes of memory traffic per contiguous run, of the model.
        thread_registers: registers of a thread besides the values of its block, of the model.
        ub_bytes: bytes of UB of a core; ``ascend`` only.
    """

    name: str
    backend: str
    dialect: str
    experimental: bool
    checked: str
    chip: str
    capability: int
    multiprocessors: int
    registers: int
    threads: int
    shared_bytes: int
    l2_bytes: int
    fp32_lanes: int
    clock_mhz: int
    copy_gbs: float
    l2_gbs: float
    launch_us: float
    late_us: float
    meet_us: float
    alone_gbs: float
    waste_bytes: float
    thread_registers: int
    ub_bytes: int
    _figures: tuple[Figure, ...]

    @property
    def home(self) -> str:
        """Kind of device that runs its kernels: ``cuda`` or ``npu``."""
        return {"cuda": "cuda", "ascend": "npu"}[self.dialect]

    def figures(self) -> tuple[Figure, ...]:
        """Return every number with unit, status and source, in the order of the fields."""
        return self._figures

    def __hash__(self) -> int:
        return hash(self.name)


@cache
def gpu_names() -> tuple[str, ...]:
    """Return the sorted names of the targets in this folder."""
    return tuple(sorted(target_files("autofuse.targets.gpu")))


@cache
def load_gpu(name: str) -> GpuTarget:
    """Return the target called ``name``.

    Raises:
        AutofuseError: AF5006 if there is none.
    """
    if name not in gpu_names():
        raise unknown_target(name, gpu_names())
    doc = parsed(target_files("autofuse.targets.gpu")[name])
    target = dict(doc["target"])
    chip = target.get("chip", "")
    found = _figures_of_chip(chip) if chip else {}
    found |= {f.name: f for f in read_figures(doc["figures"])}
    return _made({"name": name, "backend": "triton", **target}, found)


def from_driver(properties: Any) -> GpuTarget:
    """Return a target for an NVIDIA card without a file, from its driver's data; every figure is assumed.

    Args:
        properties: an object with the attributes of ``torch.cuda.get_device_properties``.
    """
    p = properties
    # The clock is in kHz, the bus in bits, and memory transfers data twice per clock.
    peak_gbs = 2 * p.memory_clock_rate * p.memory_bus_width / 8 / 1e6
    copy_gbs = round(_COPY_SHARE * peak_gbs)
    said = f"driver, {p.name}"
    rows: dict[str, tuple[float, str, str]] = {
        "capability": (10 * p.major + p.minor, "", said),
        "multiprocessors": (p.multi_processor_count, "", said),
        "registers": (p.regs_per_multiprocessor, "32-bit registers/SM", said),
        "threads": (p.max_threads_per_multi_processor, "threads/SM", said),
        "shared_bytes": (p.shared_memory_per_multiprocessor, "B/SM", said),
        "l2_bytes": (p.L2_cache_size, "B", said),
        "fp32_lanes": (
            _FP32_LANES.get(10 * p.major + p.minor, 128),
            "elements/cycle and SM",
            "CUDA C++ programming guide, by compute capability",
        ),
        "clock_mhz": (p.clock_rate // 1000, "MHz", said),
        "copy_gbs": (copy_gbs, "GB/s", f"{_COPY_SHARE:g} of the peak of its memory; {said}"),
        "l2_gbs": (round(_L2_FACTOR * copy_gbs), "GB/s", f"{_L2_FACTOR:g} times the copy rate"),
    }
    # Figures that only the kernel time model uses are unknown.
    for f in load_gpu(_LIKE).figures():
        rows.setdefault(f.name, (float(f.value), f.unit, "as on an H100"))
    found = {
        name: figure(name, value, unit, {"status": "assumed", "source": source})
        for name, (value, unit, source) in rows.items()
    }
    name = re.sub(r"[^a-z0-9]+", "-", p.name.lower()).strip("-")
    about = {"name": name, "backend": "triton", "dialect": "cuda", "experimental": True}
    about["checked"] = "not checked on this card"
    return _made(about, found)


def _figures_of_chip(chip: str) -> dict[str, Figure]:
    """Return the figures of an Ascend chip that the target shares, by their names here."""
    own = {f.name: f for f in load_chip(chip).figures()}
    return {name: replace(own[there], name=name) for there, name in _OF_CHIP.items()}


def _made(about: Mapping[str, Any], found: Mapping[str, Figure]) -> GpuTarget:
    """Return a target made from its figures.

    Raises:
        ValueError: a figure is missing, or there is no such figure in its dialect.
    """
    lacks = dict.fromkeys(_LACKS[about["dialect"]], 0)
    values: dict[str, Any] = {"chip": "", **lacks, **about}
    order = [f.name for f in fields(GpuTarget)]
    figures = sorted(found.values(), key=lambda f: order.index(f.name))
    values |= {f.name: f.value for f in figures}
    values["_figures"] = tuple(figures)
    return made(GpuTarget, values, f"target {about['name']}")
