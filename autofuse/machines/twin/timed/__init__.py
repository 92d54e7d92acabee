"""Timed mode: the clocks of a run by the cost model."""
