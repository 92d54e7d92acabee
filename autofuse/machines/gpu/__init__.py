"""Runs generated modules of Triton kernels: in Triton's interpreter on a CPU, or on a card.

PyTorch and Triton are imported only in worker processes: Triton decides at import whether it interprets, and a kernel
that loops or breaks its card ends only its worker.
"""
