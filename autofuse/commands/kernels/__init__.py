"""Verbs that make kernels and run them: ``build``, ``run``, ``verify``."""
