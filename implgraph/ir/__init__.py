"""The graphs: FusionGraph, HintGraph, ImplGraph, with their text and JSON forms."""
