"""Pads of pads become one; those that others read, or that have another value, stay."""

import pytest

from autofuse.api import build
from autofuse.frontends import read
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.rewrites.nested_pads import with_nested_pads_joined


def pad(i: int, low: list[int], high: list[int], value: float = 0.0) -> dict:
    x = f"t{i - 1}" if i else "x"
    attrs = {"low": low, "high": high, "value": value}
    return {"name": f"n{i}", "op": "Pad", "inputs": [x], "outputs": [f"t{i}"], "attrs": attrs}


def graph(nodes: list[dict], outputs: list[str]) -> FusionGraph:
    x = {"name": "x", "dtype": "float32", "shape": ["s", 5]}
    symbols = {"s": {"min": 1, "max": 100}}
    head = {"schema": "autofuse.graph/1", "name": "pads", "symbols": symbols, "inputs": [x]}
    return read({**head, "nodes": nodes, "outputs": outputs})


def test_frames_around_frames_are_one() -> None:
    nodes = [pad(0, [1, 0], [0, 2]), pad(1, [3, 1], [1, 0]), pad(2, [0, 0], [4, 4])]
    g = graph(nodes, ["t2"])
    (only,) = with_nested_pads_joined(g).nodes
    widths = {k: [str(e) for e in only.attrs[k]] for k in ("low", "high")}
    assert widths == {"low": ["4", "1"], "high": ["5", "6"]}
    assert only.inputs == ("x",)
    assert with_nested_pads_joined(g).tensors.keys() == {"x", "t2"}


@pytest.mark.parametrize(
    ("second", "outputs"),
    [
        (pad(1, [1, 1], [0, 0], 2.0), ["t1"]),
        (pad(1, [1, 1], [0, 0], -0.0), ["t1"]),
        (pad(1, [1, 1], [0, 0]), ["t0", "t1"]),
    ],
)
def test_others_stay(second: dict, outputs: list[str]) -> None:
    g = graph([pad(0, [1, 1], [1, 1]), second], outputs)
    assert with_nested_pads_joined(g) is g


def test_a_long_chain_has_few_groups() -> None:
    nodes = [pad(i, [1, i % 2], [i % 3, 0]) for i in range(300)]
    (*results,) = build(graph(nodes, ["t299"])).schedule
    assert max(len(r.groups) for r in results) <= 5
