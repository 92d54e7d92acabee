"""An operator of PyTorch around a kernel: what ``--entry torch`` writes beside the files of the kernel."""
