"""The kit for a chip: it checks the assumptions about the chip's results, and times the chip."""
