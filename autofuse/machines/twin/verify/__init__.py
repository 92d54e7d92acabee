"""Verification: every tiling key on random data, compared with the oracle."""
