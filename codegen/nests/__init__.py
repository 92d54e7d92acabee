"""Loop nests of a HintGraph, for backends that plan their kernels: levels of reductions, ops that a language has."""
