"""The operators that are measured: a module for each set, of rows as ``rows`` defines them."""
