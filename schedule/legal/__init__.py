"""Legalisation: every node becomes one that the target has a call for."""
