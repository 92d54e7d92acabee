"""Imports generated modules from files, because Triton reads the source of kernels from files."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from autofuse.base import artifacts, cache

__all__ = ["imported"]


def imported(text: str, name: str) -> ModuleType:
    """Import a text as a module, from a file in the cache folder.

    Args:
        text: text of the module.
        name: name of the file, which ends in ``.py``.

    Raises:
        AutofuseError: AF5009, the cache folder cannot be used.
    """
    digest = artifacts.digest(text)
    # Part of Triton's cache key of a kernel: equal in every process, so that compiled kernels are found.
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
