"""Reports of results for terminals and pages; the printing functions take the data that ``--json`` prints."""
