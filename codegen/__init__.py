"""Code generation: ImplGraph to KernelIR to C++ files."""

if __name__ == "codegen":
    raise ImportError(
        "the folder 'codegen' is part of the package autofuse: write 'import autofuse.codegen'",
        name=__name__,
    )
