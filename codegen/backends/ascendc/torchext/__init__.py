"""A PyTorch operator around a kernel: the additional files of ``--entry torch``."""
