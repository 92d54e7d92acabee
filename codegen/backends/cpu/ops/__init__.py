"""Ops of the CPU backend: their spelling, and the functions that they call."""
