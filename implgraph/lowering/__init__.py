"""From a FusionGraph to a HintGraph: views, groups, axes."""
