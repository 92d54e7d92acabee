"""Lowering of an ImplGraph to KernelIR."""
