"""Loop nests of a HintGraph for backends that plan their kernels: reduction levels, and ops that a language has."""
