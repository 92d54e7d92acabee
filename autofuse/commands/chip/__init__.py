"""Verbs about kernels on real chips."""
