"""Parts of ``benchmarks/fuzz.py``: targets, mutations, engines."""
