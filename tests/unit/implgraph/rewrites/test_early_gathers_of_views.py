"""Gathers of one element per row move through views that keep the innermost dimension."""

from __future__ import annotations

import draws
import pytest
from twin_graphs import check, graph

from autofuse import api
from autofuse.implgraph.rewrites.early_gathers import with_early_gathers

F, H = "float32", "float16"


def loss(batch, tokens, words, *, seen=None):
    """Negative logarithms of softmax at labels, of logits that a view brings to rows."""
    rows = batch * tokens
    seen = seen or (rows, words)
    nodes = [
        ("w", "Cast", ["x"], {"dtype": F}),
        ("r", "Reshape", ["w"], {"shape": seen}),
        ("m", "ReduceMax", ["r"], {"axes": [1], "keepdims": True}),
        ("d", "Sub", ["r", "m"]),
        ("e", "Exp", ["d"]),
        ("s", "ReduceSum", ["e"], {"axes": [1], "keepdims": True}),
        ("g", "Ln", ["s"]),
        ("p", "Sub", ["d", "g"]),
        ("t", "GatherElements", ["p", "i"], {"axis": 1}),
        ("y", "Neg", ["t"]),
    ]
    inputs = {"x": (H, [batch, tokens, words]), "i": ("int64", [seen[0], 1])}
    return graph(inputs, nodes)


def test_the_gather_reads_an_input() -> None:
    made = with_early_gathers(api.read(loss(4, 50, 1000)))
    (gather,) = (n for n in made.nodes if n.op == "GatherElements")
    assert gather.inputs[0] in made.inputs
    assert made.tensors[gather.outputs[0]].shape == (4, 50, 1)


def test_a_view_that_cuts_rows_stays() -> None:
    before = api.read(loss(4, 50, 1000, seen=(400, 500)))
    made = with_early_gathers(before)
    (gather,) = (n for n in made.nodes if n.op == "GatherElements")
    assert gather.inputs[0] not in made.inputs


@pytest.mark.twin
@pytest.mark.parametrize("words", [3, 70, 5001])
def test_losses_are_right(words) -> None:
    check(loss(3, 17, words), seed=draws.seed())


@pytest.mark.twin
def test_logits_are_read_once() -> None:
    """No row of logarithms passes through GM."""
    built = check(loss(2, 24, 20_000), seed=draws.seed())
    spaces = [w for r in built.schedule for w in r.hint.ops("Workspace")]
    assert all(w.size("size").evaluate({}) <= 48 for w in spaces)
