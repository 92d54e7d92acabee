"""One folder per dialect: from a schedule to files."""
