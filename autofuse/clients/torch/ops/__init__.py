"""PyTorch operators, one row each."""
