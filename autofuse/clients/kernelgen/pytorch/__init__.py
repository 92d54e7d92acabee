"""The graph of an operator as a function of plain PyTorch, with a row per op."""
