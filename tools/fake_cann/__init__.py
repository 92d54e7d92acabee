"""A folder like that of CANN: kernels compile for and run on the CPU twin, times are those of a perturbed model."""
