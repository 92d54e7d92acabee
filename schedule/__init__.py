"""The scheduler: HintGraph in, ranked ImplGraphs (templates) out."""

if __name__ == "schedule":
    raise ImportError(
        "the folder 'schedule' is part of the package autofuse: write 'import autofuse.schedule'",
        name=__name__,
    )
