"""A fake CANN folder: kernels compile for and run on the CPU twin, and times come from a perturbed model."""
