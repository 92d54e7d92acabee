"""Targets that run C++ loops, as data: one TOML file each; every figure has a status and a source."""

from autofuse.targets.cpu.spec import CpuTarget, cpu_names, load_cpu

__all__ = ["CpuTarget", "cpu_names", "load_cpu"]
