"""Machines that run kernels: CPU twin, CPU, GPU, Ascend chip, and an NVIDIA card as a second witness for Ascend C."""
