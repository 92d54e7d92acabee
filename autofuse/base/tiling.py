"""Cost model and search of the generated host code, from the compiled module; see ``tiling.pyi``."""

from importlib import import_module

from autofuse.base.diagnostics import AutofuseError

__all__ = ["Busy", "Chip", "Form", "Shares", "largest_tile"]

try:
    _native = import_module("autofuse._tiling")
except ImportError as e:
    raise AutofuseError.of(
        "AF5001",
        f"the tile search is not installed: {e}",
        hint="reinstall autofuse; in a checkout: pip install -e .",
    ) from e

Busy, Chip, Form, Shares = _native.Busy, _native.Chip, _native.Form, _native.Shares
largest_tile = _native.largest_tile
