"""Ops of the Triton backend: supported ops, their spelling, and reductions of blocks."""
