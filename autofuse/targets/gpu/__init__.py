"""Targets that run Triton kernels, as data: one TOML file each, every figure with its status and its source."""

from autofuse.targets.gpu.spec import GpuTarget, from_driver, gpu_names, load_gpu

__all__ = ["GpuTarget", "from_driver", "gpu_names", "load_gpu"]
