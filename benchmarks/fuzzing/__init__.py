"""Parts of ``benchmarks/fuzzing/fuzz.py``: targets, mutations, engines."""
