"""Large reductions divided among the cores or into steps, and reductions that need an earlier one in the same pass."""
