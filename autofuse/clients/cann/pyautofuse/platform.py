"""The chip that a client selects.

CANN's interface has one setting per process, so there is one here: the only state of the package.  Options of an
Autofuser take precedence.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.cann.pyautofuse.errors import ClientTypeError
from autofuse.targets import TargetSpec, load_target, target_names

__all__ = ["chip", "set_platform"]


@dataclass(frozen=True, slots=True)
class _Platform:
    """Arguments of :func:`set_platform`."""

    arch: str
    aiv_num: int | None
    ub_size: int | None


_lock = threading.Lock()
_chosen: list[_Platform] = []


def set_platform(arch: str, aiv_num: int | None = None, ub_size: int | None = None) -> None:
    """Choose the chip for all graphs scheduled from now on.

    An unknown chip is reported when a graph is scheduled.

    Args:
        arch: CANN's architecture number, such as ``2201``, or a target of autofuse, such as ``ascend910b1``.
        aiv_num: number of vector cores; None, or more than the chip has, means all of them.
        ub_size: bytes of UB, including the bytes that kernels always leave to the system; None, or more than the chip
            has, means all of it.

    Raises:
        ClientTypeError: AF1103, an argument has the wrong type.
    """
    numbers = (aiv_num, ub_size)
    if not isinstance(arch, str) or not all(isinstance(n, int | None) for n in numbers):
        text = f"set_platform takes a string and two integers, not {(arch, *numbers)!r}"
        raise ClientTypeError.of("AF1103", text)
    with _lock:
        _chosen[:] = [_Platform(arch, aiv_num, ub_size)]


def chip() -> TargetSpec:
    """Return the chosen chip, else the default one.

    Raises:
        AutofuseError: AF5006, unknown chip; AF5007, a number is out of range.
    """
    with _lock:
        wanted = _chosen[0] if _chosen else None
    return load_target(api.DEFAULT_TARGET) if wanted is None else _spec(wanted)


def _spec(wanted: _Platform) -> TargetSpec:
    names = target_names()
    arch = wanted.arch
    same = (n for n in names if load_target(n).arch.name == arch)
    spec = load_target(arch if arch in names else next(same, arch))
    if wanted.aiv_num is not None:
        if wanted.aiv_num < 1:
            text = f"{wanted.aiv_num} vector cores are out of range for {spec.name}"
            raise AutofuseError.of("AF5007", text, hint=f"1 to {spec.aiv_cores}")
        spec = replace(spec, aiv_cores=min(wanted.aiv_num, spec.aiv_cores))
    if wanted.ub_size is not None:
        taken = spec.ub_bytes - spec.ub_usable
        spec = spec.with_ub(min(wanted.ub_size, spec.ub_bytes) - taken)
    return spec
