"""Where a node runs and how its result lies in UB, one module per kind of node."""
