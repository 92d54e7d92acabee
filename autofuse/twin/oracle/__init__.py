"""What a graph means in NumPy, with error bounds; random inputs; the comparison."""
