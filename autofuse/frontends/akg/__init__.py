"""MindSpore AKG info files."""
