"""Extents of the device functions, one module each."""
