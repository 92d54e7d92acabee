"""Casts through any dtype and back, of all numbers of 16 bits and less, before and after the passes, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from edge_numbers import FLOATS, INTEGERS, converted, edges, same
from lowering_checks import graph

from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.machines.twin.oracle.oracle import evaluate

ALL = (*FLOATS, *INTEGERS, "bool")


def there_and_back(start: str, size: int) -> Any:
    """An output per dtype that ``start`` is cast to and back from."""
    nodes: list[Any] = []
    for k, through in enumerate(ALL):
        nodes.append((f"t{k}", "Cast", ["x"], {"dtype": through}))
        nodes.append((f"y{k}", "Cast", [f"t{k}"], {"dtype": start}))
    return graph({"x": ((size,), start)}, nodes, [f"y{k}" for k in range(len(ALL))])


@pytest.mark.parametrize("start", ALL)
def test_what_a_cast_loses_stays_lost(start: str) -> None:
    """A pair of casts that loses nothing may go; any other rounds, overflows and wraps as NumPy does."""
    x = edges(start)
    g = there_and_back(start, x.size)
    made = interpret(canonicalise(lower(g)), [x])
    known = evaluate(g, {"x": x}, {})
    for k, through in enumerate(ALL):
        want = converted(converted(x, through), start)
        for how, got in (("passes", made[k]), ("oracle", known[f"o{k}"].value)):
            wrong = np.flatnonzero(~same(got, want))
            assert not wrong.size, (
                f"{how}, through {through}: {x[wrong[:3]]} gives {got[wrong[:3]]}, not {want[wrong[:3]]}"
            )


@pytest.mark.parametrize(
    ("start", "through", "given", "want"),
    [
        ("bfloat16", "float16", 1e30, np.inf),
        ("bfloat16", "float16", -1e30, -np.inf),
        ("bfloat16", "float16", 2.0**-40, 0.0),
        ("float16", "bfloat16", 1 + 2.0**-10, 1.0),
        ("float16", "bfloat16", 65504.0, np.inf),
        ("float32", "bfloat16", 1 + 2.0**-23, 1.0),
        ("float32", "float16", 65520.0, np.inf),
    ],
)
def test_known_losses(start: str, through: str, given: float, want: float) -> None:
    """Both casts stay in the graph, and the number comes back changed."""
    nodes = [("t", "Cast", ["x"], {"dtype": through}), ("y", "Cast", ["t"], {"dtype": start})]
    g = graph({"x": ((1,), start)}, nodes, ["y"])
    x = np.array([given]).astype(edges(start).dtype)
    hint = canonicalise(lower(g))
    assert [n.op for n in hint.nodes].count("Cast") == 2
    assert interpret(hint, [x])[0].astype(np.float64) == want
    assert evaluate(g, {"x": x}, {})["o0"].value.astype(np.float64) == want
