"""The kit for a chip: does it compute what we assume of it, and how long does it take?"""
