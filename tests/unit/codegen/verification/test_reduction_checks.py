"""Checks of the calls that reduce in UB: a call with any other extent than its own is a finding."""

from __future__ import annotations

import pytest
from changed_counts import change_counts
from lowering_checks import graph

from autofuse.api import build
from autofuse.codegen.verification import verify_schedule

CHANGES = {
    "none": (0, 0, 0),
    "a row more": (1, 0, 0),
    "a row less": (-1, 0, 0),
    "an element more": (0, 1, 0),
    "an element less": (0, -1, 0),
    "another pitch": (0, 0, 8),
    "an unaligned pitch": (0, 0, 1),
}


@pytest.fixture(
    scope="module", params=[((1000, 333), 1), ((1000, 64), 0), ((5, 70, 33), 1)], ids=str
)
def built(request):
    shape, axis = request.param
    nodes = [("y", "ReduceSum", ["x"], {"axes": (axis,), "keepdims": False})]
    return build(graph({"x": shape}, nodes, ["y"]), verify_ir=False)


@pytest.mark.parametrize("change", CHANGES)
def test_extents(built, change, monkeypatch):
    def changed(counts):
        return [c + d for c, d in zip(counts, CHANGES[change], strict=True)]

    seen = change_counts(monkeypatch, ["Reduce"], changed)
    found = verify_schedule(built.graph, built.schedule, built.target)
    assert seen
    assert bool(found) == (change != "none"), found
