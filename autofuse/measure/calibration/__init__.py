"""Kernels whose times determine the figures of the cost model, and the fit to these times."""
