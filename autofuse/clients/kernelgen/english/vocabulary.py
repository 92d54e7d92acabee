"""English phrases and the operators that they may mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cache

from autofuse.clients.kernelgen.english.compositions import COMPOSITIONS
from autofuse.implgraph.ops.registry import all_ops, find

__all__ = ["MAX_PHRASE", "joined", "longest_phrase", "similar", "title"]

#: Number of words of the longest name.
MAX_PHRASE = 6

#: English phrases for operators, in addition to names and aliases in the registry.
_ENGLISH: Mapping[str, str] = {
    "absolute value": "Abs",
    "average": "ReduceMean",
    "concatenate": "Concat",
    "convert": "Cast",
    "copy": "Identity",
    "cumulative sum": "CumSum",
    "divide": "Div",
    "exponential": "Exp",
    "logarithm": "Ln",
    "mean": "ReduceMean",
    "minus": "Sub",
    "multiply": "Mul",
    "natural logarithm": "Ln",
    "negate": "Neg",
    "plus": "Add",
    "power": "Pow",
    "reciprocal square root": "Rsqrt",
    "running sum": "CumSum",
    "square root": "Sqrt",
    "subtract": "Sub",
    "times": "Mul",
}
#: Words with several meanings, resolved by the number of operands, else by a question.
_SEVERAL: Mapping[str, tuple[str, ...]] = {
    "max": ("ReduceMax", "Maximum"),
    "maximum": ("ReduceMax", "Maximum"),
    "min": ("ReduceMin", "Minimum"),
    "minimum": ("ReduceMin", "Minimum"),
    "norm": ("layer norm", "rms norm", "l2 norm"),
    "normalise": ("layer norm", "rms norm", "l2 norm"),
    "normalize": ("layer norm", "rms norm", "l2 norm"),
    "normalization": ("layer norm", "rms norm", "l2 norm"),
    "prod": ("ReduceProd", "Mul"),
    "product": ("ReduceProd", "Mul"),
    "shift": ("LShift", "RShift"),
    "sum": ("ReduceSum", "Add"),
}
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def joined(words: Sequence[str]) -> str:
    """Return words joined into one, in lower case and without separators."""
    return re.sub(r"[^a-z0-9]", "", "".join(words).lower())


def title(meaning: str) -> str:
    """Return an operator's name in the words of a line."""
    return " ".join(w.lower() for w in _CAMEL.findall(meaning)) if find(meaning) else meaning


@cache
def _phrases() -> dict[str, tuple[str, ...]]:
    """Return the meanings of each phrase, written as one word: names of ops and keys of compositions."""
    out: dict[str, tuple[str, ...]] = {}
    for row in all_ops(user=True):
        for name in (row.name, *row.aliases):
            out.setdefault(joined([name]), (row.name,))
    out |= {joined([phrase]): (op,) for phrase, op in _ENGLISH.items()}
    for key, c in COMPOSITIONS.items():
        out |= {joined([phrase]): (key,) for phrase in (key, *c.aliases)}
    return out | {joined([phrase]): ops for phrase, ops in _SEVERAL.items()}


def longest_phrase(words: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """Return how many leading words name an operator, and their meanings; ``(0, ())`` if they name none."""
    known = _phrases()
    for count in range(min(MAX_PHRASE, len(words)), 0, -1):
        found = known.get(joined(words[:count]))
        if found:
            return count, found
    return 0, ()


def similar(words: Sequence[str]) -> list[str]:
    """Return operators with names similar to the first words, best first."""
    known = _phrases()
    hits: dict[str, None] = {}
    for count in (2, 1, 3):
        for hit in difflib.get_close_matches(joined(words[:count]), list(known), n=3, cutoff=0.7):
            hits.update(dict.fromkeys(known[hit]))
    return list(hits)[:5]
