"""Times of kernels on devices: measurement, storage and import."""
