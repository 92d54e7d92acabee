"""Running generated kernels on the CPU twin, and comparing them with a reference.

``compile`` turns files into a shared library, ``kernel`` calls it, ``oracle`` says what the graph
means, ``data`` makes inputs, ``verify`` puts these together, and ``worker`` runs them where a crash
does no harm.
"""
