"""The chip that a client asks for.

CANN's interface has one setting for the process, so there is one here: the only state of the package.  Options of an
Autofuser come first.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.targets import TargetSpec, load_target, target_names

__all__ = ["chip", "set_platform"]

_lock = threading.Lock()
_chosen: list[TargetSpec] = []


def set_platform(arch: str, aiv_num: int | None = None, ub_size: int | None = None) -> None:
    """Choose the chip for all graphs that are scheduled from now on.

    Args:
        arch: CANN's number of the architecture, such as ``2201``, or a target of autofuse, such as ``ascend910b1``.
        aiv_num: number of vector cores; None: as the chip has.
        ub_size: bytes of UB, of which kernels leave to the system what they always do; None: as the chip has.

    Raises:
        AutofuseError: AF5006, the chip is not known; AF5007, a number is out of range.
    """
    names = target_names()
    name = (
        arch
        if arch in names
        else next((n for n in names if load_target(n).arch.name == arch), arch)
    )
    spec = load_target(name)
    if aiv_num is not None:
        if not 0 < aiv_num <= spec.aiv_cores:
            text = f"{aiv_num} vector cores are out of range for {spec.name}"
            raise AutofuseError.of("AF5007", text, hint=f"1 to {spec.aiv_cores}")
        spec = replace(spec, aiv_cores=aiv_num)
    if ub_size is not None:
        spec = spec.with_ub(ub_size - (spec.ub_bytes - spec.ub_usable))
    with _lock:
        _chosen[:] = [spec]


def chip() -> TargetSpec:
    """The chip that was chosen, else the default one."""
    with _lock:
        return _chosen[0] if _chosen else load_target(api.DEFAULT_TARGET)
