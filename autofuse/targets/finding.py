"""Lookup of targets of every kind by name."""

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

#: Targets without templates: the backend plans their kernels.
PlannedTarget: TypeAlias = GpuTarget | CpuTarget
#: Any target that kernels are generated for.
Target: TypeAlias = TargetSpec | PlannedTarget
_T = TypeVar("_T")


def find_target(name: str) -> Target:
    """Return the Ascend chip, the Triton target or the CPU called ``name``.

    Args:
        name: name of a target; or the path of a user's target file, which ends in ``.toml``.

    Raises:
        AutofuseError: AF5006 there is none; AF1001, AF1003, AF1405 the file cannot be read or is wrong.
        TypeError: the name is not a string.
    """
    if isinstance(name, str) and is_file(name):
        return load_target(name)
    return find_known(name)


def find_known(name: str) -> Target:
    """Return a target like :func:`find_target`, but never open a file: the name may come from one.

    Raises:
        AutofuseError: AF5006 if there is none, or only the cost model knows it.
        TypeError: the name is not a string.
    """
    if isinstance(name, str) and name in gpu_names():
        return load_gpu(name)
    if isinstance(name, str) and name in cpu_names():
        return load_cpu(name)
    if isinstance(name, str) and name not in target_names():
        raise unknown_target(name, (*target_names(), *gpu_names(), *cpu_names()))
    return known_target(name)


def load_target(name: str) -> TargetSpec:
    """Return the chip called ``name``, to generate kernels for.

    Args:
        name: name of a chip; or the path of a user's target file, which ends in ``.toml``.

    Raises:
        AutofuseError: AF5006 if there is none, or only the cost model knows it; AF1001, AF1003, AF1405 the file cannot
            be read or is wrong.
        TypeError: the name is not a string.
    """
    if isinstance(name, str) and is_file(name):
        return read_target(name)
    return known_target(name)


def ascend_chip(target: Target) -> TargetSpec:
    """Return the target if it is an Ascend C chip.

    Raises:
        AutofuseError: AF5007, it is another one.
    """
    hint = f"supported by: {', '.join(target_names())}"
    text = f"{target.name} has no templates, no modelled times and no CPU twin"
    return narrowed(target, TargetSpec, text, hint)


def gpu_target(target: Target) -> GpuTarget:
    """Return the target if it runs Triton kernels.

    Raises:
        AutofuseError: AF5007, it is another one.
    """
    return narrowed(target, GpuTarget, f"autofuse has no Triton kernels for {target.name}")


def ascend_only(what: str, target: Target, hint: str = "") -> TargetSpec:
    """Return the target if it supports an option that only Ascend C kernels have.

    Args:
        what: the option as the subject of a sentence, with its verb.
        target: the requested target.
        hint: the action to take.

    Raises:
        AutofuseError: AF5007, it is another kind of target.
    """
    text = f"{what} for the kernels of Ascend C, not for {target.name}"
    return narrowed(target, TargetSpec, text, hint)


def narrowed(target: Target, kind: type[_T], text: str, hint: str = "") -> _T:
    """Return the target if it is an instance of a class; else raise AF5007 with a text."""
    if not isinstance(target, kind):
        raise AutofuseError.of("AF5007", text, hint=hint)
    return target
