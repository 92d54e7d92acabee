"""Targets of every kind by their names."""

from __future__ import annotations

from typing import TypeAlias

from autofuse.base.diagnostics import AutofuseError
from autofuse.targets.cpu import CpuTarget, cpu_names, load_cpu
from autofuse.targets.gpu import GpuTarget, gpu_names, load_gpu
from autofuse.targets.own import is_file, read_target
from autofuse.targets.spec import (
    TargetSpec,
    known_target,
    target_names,
    unknown_target,
)

__all__ = ["PlannedTarget", "Target", "ascend_chip", "find_known", "find_target", "load_target"]

#: What has no templates: the backend plans its kernels.
PlannedTarget: TypeAlias = GpuTarget | CpuTarget
#: What kernels are generated for.
Target: TypeAlias = TargetSpec | PlannedTarget


def find_target(name: str) -> Target:
    """The Ascend chip, the target of Triton kernels or the CPU called ``name``.

    Args:
        name: of a target; or the path of a target file of one's own, which ends in ``.toml``.

    Raises:
        AutofuseError: AF5006 if there is none; AF1001, AF1003, AF1405 the file cannot be read or is wrong.
        TypeError: the name is no text.
    """
    if isinstance(name, str) and is_file(name):
        return load_target(name)
    return find_known(name)


def find_known(name: str) -> Target:
    """As :func:`find_target`, for a name that comes from a file: it opens none.

    Raises:
        AutofuseError: AF5006 if there is none, or only the cost model knows it.
        TypeError: the name is no text.
    """
    if isinstance(name, str) and name in gpu_names():
        return load_gpu(name)
    if isinstance(name, str) and name in cpu_names():
        return load_cpu(name)
    if isinstance(name, str) and name not in target_names():
        raise unknown_target(name, (*target_names(), *gpu_names(), *cpu_names()))
    return known_target(name)


def load_target(name: str) -> TargetSpec:
    """The chip called ``name``, to generate kernels for.

    Args:
        name: of a chip; or the path of a target file of one's own, which ends in ``.toml``.

    Raises:
        AutofuseError: AF5006 if there is none, or only the cost model knows it; AF1001, AF1003, AF1405 the file cannot
            be read or is wrong.
        TypeError: the name is no text.
    """
    if isinstance(name, str) and is_file(name):
        return read_target(name)
    return known_target(name)


def ascend_chip(target: Target) -> TargetSpec:
    """The target, for what there is of Ascend C only.

    Raises:
        AutofuseError: AF5007, it is another one.
    """
    if isinstance(target, TargetSpec):
        return target
    text = f"{target.name} has no templates, no modelled times and no CPU twin"
    hint = f"targets that have: {', '.join(target_names())}"
    raise AutofuseError.of("AF5007", text, hint=hint)
