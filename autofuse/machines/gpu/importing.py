"""Imports generated modules by way of files, which Triton reads the source of kernels from."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from autofuse.base import artifacts, cache

__all__ = ["imported"]


def imported(text: str, name: str) -> ModuleType:
    """The module of a text, from a file in the cache folder.

    Args:
        text: of the module.
        name: of the file, which ends in ``.py``.

    Raises:
        AutofuseError: AF5009, the cache folder cannot be used.
    """
    digest = artifacts.digest(text)
    # A part of what Triton knows a kernel by: the same in every process, so that it finds what it has compiled.
    full = f"autofuse_triton_{digest}"
    if full not in sys.modules:
        folder = cache.entry("triton", digest, name, lambda f: cache.write_atomic(f / name, text))
        spec = spec_from_file_location(full, folder / name)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[full] = module
    return sys.modules[full]
