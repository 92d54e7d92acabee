"""Checks of calls that take elements of rows: a call with any other counts or operands is a finding."""

from __future__ import annotations

from dataclasses import replace

import pytest
from changed_counts import change_counts
from twin_graphs import graph

from autofuse.api import build
from autofuse.codegen.verification import verify_schedule
from autofuse.schedule.legal.takes import TAKE

#: outer, rows, cols, pitch, to, from, at.
CHANGES = {
    "none": (0, 0, 0, 0, 0, 0, 0),
    "a row more": (1, 0, 0, 0, 0, 0, 0),
    "a row less": (-1, 0, 0, 0, 0, 0, 0),
    "an element more": (0, 0, 1, 0, 0, 0, 0),
    "an element less": (0, 0, -1, 0, 0, 0, 0),
    "results apart": (0, 0, 0, 0, 16, 0, 0),
    "rows apart": (0, 0, 0, 0, 0, 16, 0),
    "offsets apart": (0, 0, 0, 0, 0, 0, 16),
}


@pytest.fixture(scope="module", params=["Gather", "GatherElements"])
def built(request):
    index = [300, 50] if request.param == "GatherElements" else [50]
    inputs = {"x": ("float16", [300, 90]), "i": ("int32", index)}
    return build(graph(inputs, [("y", request.param, ["x", "i"], {"axis": 1})]), verify_ir=False)


@pytest.mark.parametrize("change", CHANGES)
def test_counts(built, change, monkeypatch):
    def changed(counts):
        return [c + d for c, d in zip(counts, CHANGES[change], strict=True)]

    seen = change_counts(monkeypatch, [TAKE], changed)
    found = verify_schedule(built.graph, built.schedule, built.target)
    assert seen
    assert bool(found) == (change != "none"), found


def changed(built, change):
    """The schedule with another node in the place of every one."""

    def impl(i):
        return replace(i, nodes=tuple(change(n, i.by_name()) for n in i.nodes))

    def group(g):
        return replace(g, impls=tuple(map(impl, g.impls)))

    return tuple(replace(r, groups=tuple(map(group, r.groups))) for r in built.schedule)


def test_rows_that_are_no_rows(built):
    """Operands in the other order: offsets from which elements would be taken."""

    def swapped(n, named):
        return replace(n, inputs=n.inputs[::-1]) if n.op == TAKE else n

    assert verify_schedule(built.graph, changed(built, swapped), built.target)


def test_a_shorter_row(built):
    """A Load that brings fewer elements than the index may select."""

    def fewer(n, named):
        row = n.size("row") if n.op == "Load" and "row" in n.attrs else None
        return n if row is None else replace(n, attrs={"row": row + 1})

    assert verify_schedule(built.graph, changed(built, fewer), built.target)
