"""Runs generated kernels on the CPU twin, and compares them with a reference.

``compile`` turns files into a shared library, ``kernel`` calls it, ``oracle`` computes the reference of a graph,
``data`` generates inputs, ``verify`` combines these, and ``worker`` runs them in a process that may crash.
"""
