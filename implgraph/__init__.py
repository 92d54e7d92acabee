"""The graph IR: expressions, axes, tensors, HintGraph and ImplGraph."""

if __name__ == "implgraph":
    raise ImportError(
        "the folder 'implgraph' is part of the package autofuse: write 'import autofuse.implgraph'",
        name=__name__,
    )
