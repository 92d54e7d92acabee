"""Basis of the proofs: the meaning of a kernel, facts about its variables, a prover, sample sizes."""
