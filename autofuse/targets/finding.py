"""Targets of every kind by their names."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

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

__all__ = [
    "PlannedTarget",
    "Target",
    "ascend_chip",
    "ascend_only",
    "find_known",
    "find_target",
    "gpu_target",
    "load_target",
    "narrowed",
]

#: What has no templates: the backend plans its kernels.
PlannedTarget: TypeAlias = GpuTarget | CpuTarget
#: What kernels are generated for.
Target: TypeAlias = TargetSpec | PlannedTarget
_T = TypeVar("_T")


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
    """Return the target where there is something of Ascend C only.

    Raises:
        AutofuseError: AF5007, it is another one.
    """
    hint = f"targets that have: {', '.join(target_names())}"
    text = f"{target.name} has no templates, no modelled times and no CPU twin"
    return narrowed(target, TargetSpec, text, hint)


def gpu_target(target: Target) -> GpuTarget:
    """Return the target where there is something of Triton only.

    Raises:
        AutofuseError: AF5007, it is another one.
    """
    return narrowed(target, GpuTarget, f"there are no kernels in Triton for {target.name}")


def ascend_only(what: str, target: Target, hint: str = "") -> TargetSpec:
    """Return the target of an option that kernels of Ascend C alone have.

    Args:
        what: the option as the subject of a sentence, with its verb.
        target: asked for.
        hint: how to go on.

    Raises:
        AutofuseError: AF5007, it is another target.
    """
    text = f"{what} for the kernels of Ascend C, not for {target.name}"
    return narrowed(target, TargetSpec, text, hint)


def narrowed(target: Target, kind: type[_T], text: str, hint: str = "") -> _T:
    """Return the target if it is of a class; else raise AF5007 with a text."""
    if not isinstance(target, kind):
        raise AutofuseError.of("AF5007", text, hint=hint)
    return target
