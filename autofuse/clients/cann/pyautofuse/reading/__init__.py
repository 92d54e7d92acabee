"""From a client's graphs to a FusionGraph."""
