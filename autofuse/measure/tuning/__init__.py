"""Search for tilings and blocks that are faster than the compiler's choice: candidates, measured in turns."""
