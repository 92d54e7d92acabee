"""Lowering of a FusionGraph to a HintGraph: views, groups, axes."""
