"""CANN's Python interface to kernel fusion."""
