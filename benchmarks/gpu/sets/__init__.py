"""The measured operators: one module of rows per set."""
