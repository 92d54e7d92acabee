"""Targets as data: one TOML file each; every figure has a status and a source."""

from autofuse.targets.architecture import Architecture
from autofuse.targets.cost_table import CostTable
from autofuse.targets.cpu import CpuTarget, cpu_names, load_cpu
from autofuse.targets.figures import Figure
from autofuse.targets.finding import (
    PlannedTarget,
    Target,
    ascend_chip,
    ascend_only,
    find_known,
    find_target,
    gpu_target,
    load_target,
    narrowed,
)
from autofuse.targets.gpu import GpuTarget, from_driver, gpu_names, load_gpu
from autofuse.targets.own import read_target
from autofuse.targets.spec import (
    TargetSpec,
    VectorCost,
    known_target,
    load_chip,
    read_chip,
    target_names,
)

__all__ = [
    "Architecture",
    "CostTable",
    "CpuTarget",
    "Figure",
    "GpuTarget",
    "PlannedTarget",
    "Target",
    "TargetSpec",
    "VectorCost",
    "ascend_chip",
    "ascend_only",
    "cpu_names",
    "find_known",
    "find_target",
    "from_driver",
    "gpu_names",
    "gpu_target",
    "known_target",
    "load_chip",
    "load_cpu",
    "load_gpu",
    "load_target",
    "narrowed",
    "read_chip",
    "read_target",
    "target_names",
]
