"""*general*: the innermost axis of the iteration space is tiled.

For a group without broadcasts that is the whole tensor as one axis.  With broadcasts it is the template that always
works: inside a tile every tensor either varies along the one axis or is a single value.
"""

from __future__ import annotations

from autofuse.schedule.tiling_axes import Choice, GroupInput

__all__ = ["choices"]


def choices(g: GroupInput) -> list[Choice]:
    """The one choice of this family."""
    return [Choice("general", "", len(g.order) - 1, padded=False)]
