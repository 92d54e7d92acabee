"""Which parts of a corpus, and cases of a test, a run takes: a sample that the next commit replaces, or all of them.

The sample is drawn with ``CORPUS_SEED``, by default the tree of the commit, so that the commits of a branch look at
parts that differ and a run can be repeated.  ``CORPUS=all`` takes all.  The head of a run shows it.
"""

import os
import random
import subprocess
from functools import lru_cache
from pathlib import Path

WHOLE = os.environ.get("CORPUS") == "all"


@lru_cache(maxsize=1)
def seed() -> str:
    """What the sample is drawn with; the same in all workers of a run."""
    named = os.environ.get("CORPUS_SEED")
    if named:
        return named
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD^{tree}"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "0"
    return done.stdout.strip()


def some(what: str, count: int, parts: int) -> list[int]:
    """Of the numbers below ``parts``, ``count`` or all; samples for different things are not the same."""
    if WHOLE:
        return list(range(parts))
    return sorted(random.Random(f"{seed()} {what}").sample(range(parts), count))


def head() -> str:
    """The line in the head of a run."""
    if WHOLE:
        return "corpora and cases: all, CORPUS=all"
    return f"corpora and cases: samples, CORPUS_SEED={seed()} draws the same ones, CORPUS=all takes all"
