"""Rounds of tuning: their choice, the changes that helped, and their log."""
