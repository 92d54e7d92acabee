"""Named invariants of HintGraph and ImplGraph."""
