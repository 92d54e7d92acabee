"""Calibration of the cost model: kernels that tell its figures apart, and the fit of figures to their times."""
