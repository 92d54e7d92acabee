"""Passes that simplify a HintGraph."""
