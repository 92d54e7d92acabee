"""Placement of nodes in loops and of results in UB, one module per kind of node."""
