"""Tilings and blocks that are faster than those that the compiler chooses: candidates, measured in turns."""
