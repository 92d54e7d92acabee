"""Output of the verbs for kernels on real chips."""
