"""Output of the commands for people."""
