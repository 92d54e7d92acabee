"""The search for tiles by the cost model, and what it evaluates."""
