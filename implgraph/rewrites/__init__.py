"""Rewrites of a FusionGraph before lowering: narrowing, recognition, decomposition, division among the cores."""
