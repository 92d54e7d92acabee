"""Kernels of regions inside Inductor's own pipeline: a pass that puts Triton kernels into its graph."""
