"""Chips as data: one TOML file each, every figure with its status and its source."""

from autofuse.targets.spec import Figure, TargetSpec, VectorCost, load_target, target_names

__all__ = ["Figure", "TargetSpec", "VectorCost", "load_target", "target_names"]
