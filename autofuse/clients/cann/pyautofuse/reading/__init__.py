"""Translation of a client's graphs to a FusionGraph."""
