"""Translation of an operator's graph to a plain PyTorch function, with a table row per op."""
