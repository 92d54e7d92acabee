"""Formulas that rows compute with: expansions, vector formulas, polynomials, references."""
