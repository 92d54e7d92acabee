"""Splitting a graph that is too large for one kernel, and changing the sizes of its dimensions."""
