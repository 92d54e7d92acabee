"""Compiling and running kernels on the twin, in worker processes."""
