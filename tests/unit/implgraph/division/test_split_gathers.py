"""Sums of elements that are gathered one by one: they have few bytes, and take long."""

from __future__ import annotations

from typing import Any

import draws
import pytest
from twin_graphs import CHIP, check, graph

from autofuse import api
from autofuse.implgraph.division.split_reductions import split_forms
from autofuse.implgraph.rewrites.decompose import decompose

F = "float32"


def loss(rows: int, classes: int) -> dict[str, Any]:
    """The mean of one element of each row, as a loss of a language model takes it."""
    nodes = [
        ("g", "GatherElements", ["x", "i"], {"axis": 1}),
        ("n", "Neg", ["g"]),
        ("y", "ReduceMean", ["n"], {"axes": [0, 1]}),
    ]
    return graph({"x": (F, [rows, classes]), "i": ("int64", [rows, 1])}, nodes)


def embedding(rows: int, width: int) -> dict[str, Any]:
    nodes = [
        ("g", "Gather", ["x", "i"], {"axis": 0}),
        ("y", "ReduceSum", ["g"], {"axes": [0, 1]}),
    ]
    return graph({"x": (F, [1000, width]), "i": ("int64", [rows])}, nodes)


def divided(document: dict[str, Any]) -> bool:
    written = decompose(api.read(document))
    return any(form is not written for form in split_forms(written, CHIP))


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (loss(2048, 30000), True),
        (loss(32, 30000), False),  # a barrier takes as long
        (embedding(32, 64), False),  # one command for a row, as many elements as below
        (embedding(32 * 64, 1), True),
        (graph({"x": (F, [2048, 1])}, [("y", "ReduceSum", ["x"], {"axes": [0]})]), False),
    ],
)
def test_the_time_of_gathers_counts(document, found):
    assert divided(document) == found


@pytest.mark.twin
def test_the_divided_loss_is_right_and_uses_more_cores():
    built = check(loss(2048, 7000), seed=draws.seed())
    (form,) = built.schedule
    assert len(form.groups) == 2
    assert form.groups[1].sync_before
