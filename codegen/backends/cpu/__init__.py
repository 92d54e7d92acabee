"""Plain C++ loops over fused nests, with OpenMP."""
