"""Rounds of tuning, what they are chosen by, what helped, and the log of them."""
