"""The cost model, and the search for tiles by it."""
