"""Clients of the compiler: CANN programs, PyTorch, ONNX, MindSpore AKG, and KernelGen."""
