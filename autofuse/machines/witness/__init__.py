"""Kernels of Ascend C, unmodified, on a card of NVIDIA: a second witness beside the CPU twin.

The headers of ``runtime/cuda`` give the same source another meaning: one core is one block of threads.
"""
