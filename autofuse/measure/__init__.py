"""Measurements of kernels and machines: times, tuning, figures of a chip, certificates, imported results."""
