"""Runs generated modules of Triton kernels: in Triton's interpreter on a CPU, or on a card.

PyTorch and Triton are imported in worker processes only: Triton decides when it is imported whether it interprets,
and a kernel that loops or breaks its card ends nothing but its worker.
"""
