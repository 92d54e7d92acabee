"""The operators: the definition of a row, the registry of all rows, inference from them."""
