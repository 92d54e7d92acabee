"""From a FusionGraph to one that lowering takes: narrower, recognised, written out, divided among the cores."""
