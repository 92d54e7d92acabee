"""Graph files of autofuse.graph/1."""
