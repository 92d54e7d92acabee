"""A digest of this package, on which everything generated and measured depends."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import autofuse
from autofuse.base import artifacts

__all__ = ["digest_of_sources", "files"]


@functools.cache
def digest_of_sources() -> str:
    """Return a digest of the version, the text and the data of this package, on which generated kernels depend."""
    texts = (f.read_text("utf-8") for f in files())
    return artifacts.digest("\0".join([autofuse.__version__, *texts]))


def files() -> list[Path]:
    """Return the modules and data files of this package; rooms of a source tree are links."""
    found = os.walk(Path(autofuse.__file__).parent, followlinks=True)
    return sorted(
        Path(folder, name)
        for folder, _, names in found
        for name in names
        if name.endswith((".py", ".json", ".toml"))
    )
