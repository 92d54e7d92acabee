"""Verbs that look at a graph or help to write one: ``dump``, ``explain``, ``show``, ``schema``, ``new``, ``ops``."""
