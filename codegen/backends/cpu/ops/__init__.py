"""Ops of the backend for CPUs: how they are written, and the functions that they call."""
