"""The definition of an operator: from what it is made, what follows from it, and the shapes it is tried at."""
