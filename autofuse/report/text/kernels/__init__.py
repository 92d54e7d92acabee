"""Output about kernels: built, explained, run, compared."""
