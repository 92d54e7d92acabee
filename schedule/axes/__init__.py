"""Axes of a template: tile and block splits, layouts in UB, legal tiles, the result."""
