"""The text of a file of kernels, of the plan."""
