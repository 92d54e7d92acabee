"""Reads ``*.toml`` of this folder into :class:`CpuTarget`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from autofuse.targets.figures import Figure, made, parsed, read_figures, target_files
from autofuse.targets.spec import unknown_target

__all__ = ["CpuTarget", "cpu_names", "load_cpu"]


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A machine that a C++ compiler with OpenMP compiles for.

    Attributes:
        name: as passed to ``load_cpu``.
        backend: the folder of ``codegen.backends`` that writes its kernels.
        experimental: kernels for this target may change more than others do.
        checked: a sentence without its full stop: how the generated code was checked, and whether it ran on silicon.
        cores: cores that share the loops; 0: all cores of the machine.
        simd_bytes: bytes of a vector register, for the shortest block of columns; the code supports any.
        cache_bytes: bytes of a core's private cache, for data kept between passes over a row.
    """

    name: str
    backend: str
    experimental: bool
    checked: str
    cores: int
    simd_bytes: int
    cache_bytes: int
    _figures: tuple[Figure, ...]

    @property
    def home(self) -> str:
        """Kind of device that runs its kernels."""
        return "cpu"

    def figures(self) -> tuple[Figure, ...]:
        """Return every number with unit, status and source."""
        return self._figures

    def __hash__(self) -> int:
        return hash(self.name)


@cache
def cpu_names() -> tuple[str, ...]:
    """Return the sorted names of the targets in this folder."""
    return tuple(sorted(target_files("autofuse.targets.cpu")))


@cache
def load_cpu(name: str) -> CpuTarget:
    """Return the target called ``name``.

    Raises:
        AutofuseError: AF5006 if there is none.
    """
    if name not in cpu_names():
        raise unknown_target(name, cpu_names())
    doc = parsed(target_files("autofuse.targets.cpu")[name])
    figures = tuple(read_figures(doc["figures"]))
    values = {f.name: f.value for f in figures}
    about = {"name": name, "backend": "cpu", **doc["target"], "_figures": figures}
    return made(CpuTarget, about | values, f"target {name}")
