"""Reports of results for terminals and pages; printing functions take the data that ``--json`` prints."""
