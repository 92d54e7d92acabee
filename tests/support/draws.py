"""Random numbers of tests, all from ``TEST_SEED``, and the samples of cases that a run takes.

Without the variable every run has data of its own; the head of a run shows the seed that repeats it.  Numbers depend on
the seed and on the test that draws them, not on the order in which tests run.  Samples are the same in every run, so
that two commits are judged by the same cases; ``CORPUS=all`` takes all.
"""

import os
import random
import secrets

import numpy as np

#: True if a run takes all of the corpora and all cases.
WHOLE = os.environ.get("CORPUS") == "all"
#: The seed of a run; processes that a test starts inherit it.
SEED = int(os.environ.setdefault("TEST_SEED", str(secrets.randbelow(1 << 31))))

_streams: dict[str, random.Random] = {}


def seed() -> int:
    """A number below 2**31, another one each time; the same ones for the same test and ``TEST_SEED``."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    if test not in _streams:
        _streams.clear()
        _streams[test] = random.Random(f"{SEED} {test}")
    return _streams[test].randrange(1 << 31)


def rng() -> np.random.Generator:
    """A generator of NumPy with a seed of its own."""
    return np.random.default_rng(seed())


def python_rng() -> random.Random:
    """A generator of the module ``random`` with a seed of its own."""
    return random.Random(seed())


def some(what: str, count: int, parts: int) -> list[int]:
    """Of the numbers below ``parts``, ``count`` or all; samples for different things are not the same."""
    if WHOLE:
        return list(range(parts))
    return sorted(random.Random(what).sample(range(parts), count))


def head() -> str:
    """The line in the head of a run."""
    taken = "all" if WHOLE else "samples, CORPUS=all takes all"
    return f"corpora and cases: {taken}; data: TEST_SEED={SEED} repeats them"
