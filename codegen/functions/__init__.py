"""Functions of ``device_templates/``, keyed by the name in the op registry.

Each module of this folder lists its functions in a table, ``FUNCTIONS``.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from autofuse.codegen.functions.definition import DeviceFunction
from autofuse.codegen.ir.calls import Call, Phases

__all__ = ["FUNCTIONS", "phases"]

FUNCTIONS: dict[str, DeviceFunction] = {}
for _m in iter_modules(__path__):
    FUNCTIONS |= getattr(import_module(f"{__name__}.{_m.name}"), "FUNCTIONS", {})


def phases(s: Call) -> Phases:
    """Return the reads and writes of a call, divided into phases at its internal barriers of the vector pipe."""
    f = FUNCTIONS.get(s.api)
    return ((s.reads, s.writes),) if f is None else f.phases(s)
