"""Integer expressions over symbolic sizes: the class, its parser, bounds of remainders."""
