"""Legalisation: rewriting nodes to ops that the target has calls for."""
