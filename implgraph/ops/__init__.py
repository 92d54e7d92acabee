"""The operators: what a row is, the registry of all rows, inference from them."""
