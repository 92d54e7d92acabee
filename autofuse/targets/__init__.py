"""Chips as data: one TOML file each, every figure with its status and its source."""

from autofuse.targets.cost_table import CostTable
from autofuse.targets.spec import (
    Figure,
    TargetSpec,
    VectorCost,
    chip_names,
    load_chip,
    load_target,
    read_target,
    target_names,
)

__all__ = [
    "CostTable",
    "Figure",
    "TargetSpec",
    "VectorCost",
    "chip_names",
    "load_chip",
    "load_target",
    "read_target",
    "target_names",
]
