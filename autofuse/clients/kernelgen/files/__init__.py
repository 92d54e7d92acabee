"""The four files of an operator in KernelGen's formats, and the check of their interfaces."""
