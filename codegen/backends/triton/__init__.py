"""The Triton backend: kernels, and a function that checks arguments, allocates results and launches."""
