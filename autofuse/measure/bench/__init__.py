"""Times of kernels on the devices that run them: what is measured, how it is kept, and where it comes from."""
