"""Compiles generated C++ loops with the compiler of this machine, and runs them on NumPy arrays."""
