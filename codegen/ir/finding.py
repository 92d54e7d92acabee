"""Finding of a check of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """An obligation that fails, or, with ``refuted`` False, one without a proof.

    ``values``: sizes for which it fails; None if it does not depend on sizes, or is not refuted.
    """

    message: str
    node: str = ""
    refuted: bool = True
    values: Mapping[str, int] | None = None
