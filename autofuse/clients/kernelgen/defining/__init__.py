"""The definition of an operator: its sources, its analysis, and its test shapes."""
