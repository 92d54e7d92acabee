"""What the checks prove with: the meaning of a kernel, facts about its variables, a prover, sample sizes."""
