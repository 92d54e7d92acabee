"""Placement of nodes: where they run and how results lie in UB, one module per kind of node."""
