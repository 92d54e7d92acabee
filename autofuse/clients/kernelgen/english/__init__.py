"""Lines of restricted English about operators."""
