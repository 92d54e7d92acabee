"""Emit the file of a plan's kernels."""
