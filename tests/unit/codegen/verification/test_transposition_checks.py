"""Checks of transpositions in UB: a call with any other extent than its own is a finding."""

from __future__ import annotations

import pytest
from changed_counts import change_counts

from autofuse.api import build
from autofuse.codegen.verification import verify_schedule

CHANGES = {
    "none": (0, 0, 0, 0, 0),
    "a row less": (0, -1, 0, 0, 0),
    "a column less": (0, 0, -1, 0, 0),
    "a column more": (0, 0, 4096, 0, 0),
    "another source pitch": (0, 0, 0, 8, 0),
    "another pitch of the result": (0, 0, 0, 0, 8),
    "an unaligned pitch": (0, 0, 0, 0, 1),
}
GRAPHS = [
    ((4096, 3000), (1, 0), ()),
    (("s0", "s1"), (1, 0), ("s0", "s1")),
    ((6, 40, 30), (0, 2, 1), ()),
]


@pytest.fixture(scope="module", params=GRAPHS, ids=str)
def built(request):
    shape, perm, symbols = request.param
    return build(
        {
            "schema": "autofuse.graph/1",
            "name": "k",
            "symbols": {s: {"min": 1, "max": 5000} for s in symbols},
            "inputs": [{"name": "x", "dtype": "float32", "shape": list(shape)}],
            "nodes": [
                {
                    "name": "n",
                    "op": "Transpose",
                    "inputs": ["x"],
                    "outputs": ["y"],
                    "attrs": {"perm": list(perm)},
                }
            ],
            "outputs": ["y"],
        },
        verify_ir=False,
    )


@pytest.mark.parametrize("change", CHANGES)
def test_extents(built, change, monkeypatch):
    def changed(counts):
        return [c + d for c, d in zip(counts, CHANGES[change], strict=True)]

    seen = change_counts(monkeypatch, ["TransposeRows"], changed)
    found = verify_schedule(built.graph, built.schedule, built.target)
    assert seen
    assert bool(found) == (change != "none"), found
