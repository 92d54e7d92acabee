"""What verbs about kernels on real chips print."""
