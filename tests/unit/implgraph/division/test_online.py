"""Reductions that follow earlier ones: what is recognised, and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from schedule_steps import group_inputs

from autofuse import api
from autofuse.implgraph.division import online_reductions as online
from autofuse.implgraph.division.online_reductions import Online
from autofuse.implgraph.expr.expression import product
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")
ROWS = {"axes": [1], "keepdims": True}


def rules(
    nodes: Sequence[tuple[Any, ...]],
    outputs: Sequence[str],
    shape: Sequence[Any] = (40, 33),
    dtype: str = "float32",
) -> list[Online]:
    """The rules of the groups of a graph over ``x`` and ``z``, after legalisation."""
    used = [n for n in ("x", "z") if any(n in xs for _, _, xs, *_ in nodes)]
    document = {
        "schema": "autofuse.graph/1",
        "name": "k",
        "symbols": {s: {"max": 99} for s in shape if isinstance(s, str)},
        "inputs": [{"name": n, "dtype": dtype, "shape": list(shape)} for n in used],
        "nodes": [
            {
                "name": name,
                "op": op,
                "inputs": [x if isinstance(x, str | dict) else {"const": x} for x in xs],
                "outputs": [name],
                "attrs": attrs[0] if attrs else {},
            }
            for name, op, xs, *attrs in nodes
        ],
        "outputs": list(outputs),
    }
    found: list[Online] = []
    for g in group_inputs(api.hint_of(document), CHIP):
        count = product(g.size(a) for a in g.reduced)
        found += online.online_reductions(g.nodes, frozenset(g.reduced), count).values()
    return found


MAX = ("m", "ReduceMax", ["x"], ROWS)
MEAN = ("m", "ReduceMean", ["x"], ROWS)
BELOW = ("d", "Sub", ["x", "m"])


def total(name: str) -> tuple[Any, ...]:
    return ("s", "ReduceSum", [name], ROWS)


@pytest.mark.parametrize(
    ("nodes", "moves"),
    [
        ([MAX, BELOW, ("e", "Exp", ["d"]), total("e")], ["e"]),
        ([MAX, BELOW, ("k", "Mul", ["d", 0.5]), ("e", "Exp", ["k"]), total("e")], ["k", "e"]),
        ([MAX, BELOW, ("e", "Exp", ["d"]), ("f", "Mul", ["e", "z"]), total("f")], ["e"]),
        ([MAX, BELOW, ("e", "Exp", ["d"]), ("f", "Mul", ["e", -3.0]), total("f")], ["e"]),
    ],
    ids=["powers", "scaled", "weighted", "multiple"],
)
def test_sums_of_powers(nodes, moves):
    (rule,) = rules(nodes, ["s"])
    assert rule.scales
    assert not rule.centres[0].is_mean
    # The move goes through what makes the power, in that order, and not through factors beside it.
    assert list(rule.moves[0]) == moves


@pytest.mark.parametrize("shape", [(40, 33), (1, 999), ("a", "b")], ids=str)
def test_sums_of_squares(shape):
    nodes = [MEAN, BELOW, ("q", "Mul", ["d", "d"]), total("q")]
    (rule,) = rules(nodes, ["s"], shape)
    assert not rule.scales
    assert rule.centres[0] == rule.centres[1]
    assert rule.centres[0].is_mean
    assert not rule.hides


def test_sum_of_products_about_two_means():
    nodes = [
        MEAN,
        ("n", "ReduceMean", ["z"], ROWS),
        BELOW,
        ("f", "Sub", ["z", "n"]),
        ("q", "Mul", ["d", "f"]),
        total("q"),
    ]
    (rule,) = rules(nodes, ["s"])
    assert len({c.reduction for c in rule.centres}) == 2


@pytest.mark.parametrize(
    "nodes",
    [
        [MAX, ("d", "Sub", ["z", "m"]), ("e", "Exp", ["d"]), total("e")],
        [MAX, ("d", "Sub", ["m", "x"]), ("e", "Exp", ["d"]), total("e")],
        [MAX, BELOW, ("k", "Mul", ["d", -1.0]), ("e", "Exp", ["k"]), total("e")],
        [MAX, BELOW, ("q", "Mul", ["d", "d"]), total("q")],
        [MAX, BELOW, ("e", "Exp", ["d"]), ("f", "Add", ["e", "z"]), total("f")],
        [MAX, BELOW, ("e", "Abs", ["d"]), ("f", "Add", ["e", "z"]), total("f")],
        [MAX, BELOW, ("e", "Exp", ["d"]), ("s", "ReduceMax", ["e"], ROWS)],
        [("m", "ReduceMin", ["x"], ROWS), BELOW, ("e", "Exp", ["d"]), total("e")],
        [MEAN, BELOW, ("e", "Exp", ["d"]), total("e")],
        [MEAN, BELOW, ("q", "Abs", ["d"]), total("q")],
        [MEAN, ("d", "Sub", ["z", "m"]), ("q", "Mul", ["d", "d"]), total("q")],
        [
            ("t", "ReduceSum", ["x"], ROWS),
            ("m", "Div", ["t", 32.0]),
            BELOW,
            ("q", "Mul", ["d", "d"]),
            total("q"),
        ],
    ],
    ids=[
        *("other data", "above", "negative multiple", "squares about a maximum"),
        *("a term beside", "a term beside a distance"),
        *("largest of powers", "minimum", "powers about a mean", "distances", "squares of others"),
        "not the number of elements",
    ],
)
def test_what_no_rule_covers(nodes):
    assert rules(nodes, ["s"]) == []


@pytest.mark.parametrize(
    ("nodes", "hides"),
    [
        ([("y", "Softmax", ["x"], {"axis": 1})], False),
        ([("y", "LogSoftmax", ["x"], {"axis": 1})], False),
        ([MAX, BELOW, ("e", "Exp", ["d"]), total("e"), ("y", "Ln", ["s"])], True),
        ([MAX, BELOW, ("e", "Exp", ["d"]), total("e"), ("y", "Add", ["s", "m"])], True),
    ],
    ids=["softmax", "logarithm", "sum", "with the maximum"],
)
def test_rows_without_a_number_show(nodes, hides):
    (rule,) = rules(nodes, ["y"])
    assert rule.hides is hides


@pytest.mark.parametrize(("least", "found"), [(0.25, 1), (-1e30, 1), ("-inf", 0)])
def test_a_maximum_that_is_at_least_a_number_moves_as_well(least, found):
    """And has a number for rows of nothing but -inf."""
    least = {"const": least}
    nodes = [MAX, ("c", "Maximum", ["m", least]), ("d", "Sub", ["x", "c"]), ("e", "Exp", ["d"])]
    rules_found = rules([*nodes, total("e")], ["s"])
    assert len(rules_found) == found
    assert all(r.centres[0].is_number and not r.hides for r in rules_found)


def test_a_mean_that_is_at_least_a_number_is_none():
    nodes = [MEAN, ("c", "Maximum", ["m", 0.5]), ("d", "Sub", ["x", "c"]), ("q", "Mul", ["d", "d"])]
    assert rules([*nodes, total("q")], ["s"]) == []


def test_half_precision_is_summed_up_in_single():
    nodes = [MAX, BELOW, ("e", "Exp", ["d"]), total("e")]
    (rule,) = rules(nodes, ["s"], dtype="float16")
    assert len(rule.moves[0]) == 2  # the power, and its conversion


@pytest.mark.parametrize("elements", [3 << 16, 1 << 18])
def test_a_variance_follows_the_mean_of_long_rows(elements: int) -> None:
    """Also where their length is a power of two, by which a division could be a product."""
    nodes = [
        ("mean", "ReduceMean", ["x"], ROWS),
        ("apart", "Sub", ["x", "mean"]),
        ("square", "Mul", ["apart", "apart"]),
        ("spread", "ReduceMean", ["square"], ROWS),
    ]
    assert len(rules(nodes, ["spread"], (64, elements))) == 1
