"""Chips as data: one TOML file each, every figure with its status and its source."""

from autofuse.targets.architecture import Architecture
from autofuse.targets.cost_table import CostTable
from autofuse.targets.figures import Figure
from autofuse.targets.spec import (
    TargetSpec,
    VectorCost,
    chip_names,
    load_chip,
    load_target,
    read_chip,
    target_names,
)

__all__ = [
    "Architecture",
    "CostTable",
    "Figure",
    "TargetSpec",
    "VectorCost",
    "chip_names",
    "load_chip",
    "load_target",
    "read_chip",
    "target_names",
]
