"""Verbs about chips and this machine: ``targets``, ``doctor``, ``cache``, ``knobs``."""
