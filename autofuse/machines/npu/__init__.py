"""Kernels of Ascend C on Ascend chips, through the runtime of CANN alone."""
