"""Output of the commands as text."""
