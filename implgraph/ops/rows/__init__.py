"""The rows of all operators, by kind."""
