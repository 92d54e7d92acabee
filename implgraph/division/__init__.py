"""Large reductions divided among the cores or into steps, and reductions fused into the pass of one they depend on."""
