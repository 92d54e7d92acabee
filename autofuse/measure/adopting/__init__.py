"""Edits of generated files that the user keeps: record them, compare them with the generated text, drop them."""

from autofuse.measure.adopting.adopt import accept, adopt, differences, drop

__all__ = ["accept", "adopt", "differences", "drop"]
