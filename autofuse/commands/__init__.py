"""The verbs, a folder per subject; each has the command line of a verb and the modules that implement it."""
