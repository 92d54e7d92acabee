"""Formulas used by rows: expansions, vector formulas, polynomials, references."""
