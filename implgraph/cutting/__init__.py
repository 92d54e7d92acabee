"""Cutting a graph that is too much for one kernel, and sizes of its dimensions."""
