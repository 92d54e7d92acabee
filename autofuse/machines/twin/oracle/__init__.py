"""NumPy reference of a graph with error bounds, random inputs, and the comparison."""
