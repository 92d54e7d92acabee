"""What the checks prove with: a prover, facts about variables, sample sizes."""
