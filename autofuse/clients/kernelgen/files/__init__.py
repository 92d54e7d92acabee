"""The four files of an operator in the forms of KernelGen, and the check of their interfaces."""
