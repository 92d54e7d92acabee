"""What everything stands on: diagnostics, environment variables, the cache, files on disk."""
