"""Kernels of a region on the device of its tensors: built, loaded and called."""
