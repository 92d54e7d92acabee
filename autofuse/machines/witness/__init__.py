"""Runs unmodified Ascend C kernels on an NVIDIA card: a second witness beside the CPU twin.

The headers of ``runtime/cuda`` reinterpret the source: one core is one block of threads.
"""
