"""Verbs that inspect a graph or help to write one: ``dump``, ``explain``, ``show``, ``schema``, ``new``, ``ops``."""
