"""The host code of a kernel: ABI, tiling, shape inference, launch."""
