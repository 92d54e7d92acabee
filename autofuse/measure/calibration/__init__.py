"""Kernels whose times tell the figures of the cost model, and what these times say."""
