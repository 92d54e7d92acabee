"""Which of autofuse's own modules are compiled: those of a wheel that was built with ``AUTOFUSE_NATIVE=1``."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.resources import files
from importlib.util import find_spec

__all__ = ["compiled", "listed"]


def listed() -> tuple[str, ...]:
    """The dotted names of the modules that ``AUTOFUSE_NATIVE=1`` compiles."""
    text = files("autofuse").joinpath("native_modules.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def compiled() -> tuple[str, ...]:
    """Those of them that Python imports as extension modules here; nothing in an editable install."""
    return tuple(name for name in listed() if _origin(name).endswith(tuple(EXTENSION_SUFFIXES)))


def _origin(name: str) -> str:
    spec = find_spec(name)
    return (spec.origin or "") if spec else ""
