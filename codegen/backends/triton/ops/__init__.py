"""Ops of the Triton backend: which exist, how they are written, how blocks are reduced."""
