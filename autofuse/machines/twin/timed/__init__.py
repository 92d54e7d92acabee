"""Timed mode: the clocks that a run would have by the cost model."""
