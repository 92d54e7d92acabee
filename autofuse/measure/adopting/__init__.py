"""Edits of generated files that their user keeps: recorded, compared with what is generated, given up."""

from autofuse.measure.adopting.adopt import accept, adopt, differences, drop

__all__ = ["accept", "adopt", "differences", "drop"]
