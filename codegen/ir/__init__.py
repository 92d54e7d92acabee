"""KernelIR: the statements of one device function."""
