"""What is printed of kernels: built, explained, run, compared."""
