"""Targets that run Triton kernels, as data: one TOML file each; every figure has a status and a source."""

from autofuse.targets.gpu.spec import GpuTarget, from_driver, gpu_names, load_gpu

__all__ = ["GpuTarget", "from_driver", "gpu_names", "load_gpu"]
