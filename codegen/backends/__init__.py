"""Code generation backends, one folder per dialect."""
