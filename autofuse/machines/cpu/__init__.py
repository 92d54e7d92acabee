"""Compiles generated C++ loops with this machine's compiler, and runs them on NumPy arrays."""
