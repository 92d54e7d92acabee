"""Foundation of all other packages: diagnostics, environment variables, the cache, files on disk."""
