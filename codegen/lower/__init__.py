"""From an ImplGraph to KernelIR."""
