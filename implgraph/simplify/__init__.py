"""Passes that bring a HintGraph into its simplest form."""
