"""Targets that run C++ loops, as data: one TOML file each, every figure with its status and its source."""

from autofuse.targets.cpu.spec import CpuTarget, cpu_names, load_cpu

__all__ = ["CpuTarget", "cpu_names", "load_cpu"]
