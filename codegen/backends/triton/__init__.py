"""The Triton backend: kernels in Triton, with a function that checks, allocates and launches."""
