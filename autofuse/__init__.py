"""autofuse: fused Ascend C kernels from operator graphs.

``import autofuse`` is light: what it exports is loaded on first use (PEP 562),
so ``autofuse --help`` does not pay for sympy, networkx or pydantic.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autofuse.api import BuildResult, build, load
    from autofuse.diagnostics import AutofuseError

__version__ = "0.1.0"

__all__ = ["AutofuseError", "BuildResult", "__version__", "build", "load"]

_HOME_OF = {
    "AutofuseError": "autofuse.diagnostics",
    "BuildResult": "autofuse.api",
    "build": "autofuse.api",
    "load": "autofuse.api",
}


def __getattr__(name: str) -> object:
    """Load an exported name on first use."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
