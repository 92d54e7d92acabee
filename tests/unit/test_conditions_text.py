"""Conditions of templates in the symbols of the graph, against all sizes one by one."""

import math
import re
from pathlib import Path

import pytest

from autofuse import api
from autofuse.implgraph.expr.expression import CeilDiv, FloorDiv, Max, Mod, sym
from autofuse.implgraph.ir.fusion import Symbol
from autofuse.implgraph.ir.graph import Condition
from autofuse.report import explanation
from autofuse.report.build_summary import typical_sizes
from autofuse.report.conditions import needs
from autofuse.schedule.rank import slower_words

GRAPHS = Path(__file__).parents[1] / "snapshot" / "graphs"

N, M = sym("n"), sym("m")
SYMBOLS = (Symbol("n", 1, 3000), Symbol("m", 1, 50))
LONG = (Symbol("n", 1, 1 << 20), Symbol("m", 1, 50))


@pytest.mark.parametrize(
    "value", [N, 32 * CeilDiv(N, 16) + 7, Max(N * 4, 256 * FloorDiv(N, 64)), N * N + N - 1]
)
@pytest.mark.parametrize(("low", "high"), [(400, None), (None, 1500), (400, 1500)])
def test_the_bound_of_a_symbol_is_exact(value, low, high):
    condition = Condition(value, at_least=low, at_most=high)
    text = needs(condition, SYMBOLS, {})
    start = re.search(r"n >= ([\d,]+)", text)
    stop = re.search(r"n <= ([\d,]+)", text)
    first = int(start[1].replace(",", "")) if start else 1
    last = int(stop[1].replace(",", "")) if stop else 3000
    assert (start is None) is (low is None)
    assert (stop is None) is (high is None)
    for n in range(1, 3001):
        assert condition.holds({"n": n}) is (first <= n <= last), n


def test_of_several_symbols_the_others_have_their_sizes():
    condition = Condition(32 * CeilDiv(N * M, 16), at_most=200_000)
    text = needs(condition, LONG, {"n": 2000, "m": 40})
    assert text == "needs n <= 2,500 at m = 40"


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Condition(N, multiple_of=16), "needs n to be a multiple of 16"),
        (Condition(N, at_least=24_577), "needs n >= 24,577"),
        (Condition(N - 3 * M, at_least=1), "needs n >= 25 at m = 8"),
        (Condition(Mod(N, M), at_most=2), f"needs {Mod(N, M)} <= 2"),
        (
            Condition(Mod(N, M) * 100 + Mod(N, 7) * M + Mod(M, 3), at_most=5),
            "needs a combination of m, n that is in the JSON object",
        ),
    ],
)
def test_conditions_in_words(condition, text):
    assert needs(condition, LONG, {"n": 64, "m": 8}) == text


@pytest.mark.parametrize("name", ["column_sums"])
def test_reasons_of_rejected_templates_are_words(name):
    built = api.build(GRAPHS / f"{name}.json")
    reasons = [r["reason"] for r in built.summary()["rejected"]]
    told = explanation.explain(
        "k", built.schedule, built.target, typical_sizes(built.graph.symbols)
    )
    reasons += [r["reason"] for x in told["results"] for g in x["groups"] for r in g["rejected"]]
    assert reasons
    for reason in reasons:
        assert not re.search("dominated|modelled|\\binf\\b", reason), reason


@pytest.mark.parametrize(
    ("cycles", "least", "words"),
    [
        (
            52_000.0,
            41_294.0,
            "slower by the model than x: 52,000 instead of 41,294 cycles at typical sizes",
        ),
        (41_294.2, 41_294.0, "as fast by the model as x: 41,294 cycles at typical sizes"),
        (math.inf, 41_294.0, "not legal at typical sizes"),
        (math.inf, math.inf, "not legal at typical sizes"),
        (40_000.0, 41_294.0, "reloads data that x keeps in UB, and saves little by the model"),
    ],
)
def test_how_two_templates_compare(cycles, least, words):
    assert slower_words(cycles, "x", least) == words
