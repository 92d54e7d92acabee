"""The search for tiles by the cost model, and the costs that it evaluates."""
