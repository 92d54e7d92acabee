"""Checks of columns that are placed side by side: a call with any other extents or operands is a finding."""

from __future__ import annotations

from dataclasses import replace

import pytest
from changed_counts import change_counts
from twin_graphs import graph

from autofuse.api import build
from autofuse.codegen.verification import verify_schedule

CHANGES = {
    "none": (0, 0, 0),
    "a row more": (1, 0, 0),
    "a row less": (-1, 0, 0),
    "shorter rows": (0, -1, 0),
    "longer rows": (0, 1, 0),
    "columns further apart": (0, 0, 8),
    "unaligned columns": (0, 0, 1),
}


@pytest.fixture(scope="module", params=[(1, 3000), (2, 3000), (1, "n"), (2, 64)], ids=str)
def built(request):
    """Three columns of some elements, of which the last graph has several runs in a tile."""
    width, rows = request.param
    symbols = {"n": {"min": 1, "max": 5000}} if rows == "n" else {}
    around = [90] if rows == 64 else []
    shapes = {n: ("float32", [*around, rows, width]) for n in "abc"}
    nodes = [("t", "Exp", ["a"]), ("y", "Concat", ["t", "b", "c"], {"axis": len(around) + 1})]
    return build(graph(shapes, nodes, **symbols), verify_ir=False)


@pytest.mark.parametrize("change", CHANGES)
def test_extents(built, change, monkeypatch):
    def changed(counts):
        return [c + d for c, d in zip(counts, CHANGES[change], strict=True)]

    seen = change_counts(monkeypatch, ["StackRows"], changed)
    found = verify_schedule(built.graph, built.schedule, built.target)
    assert seen
    assert bool(found) == (change != "none"), found


def changed(built, change):
    """The schedule with another node in the place of every one."""

    def impl(i):
        return replace(i, nodes=tuple(map(change, i.nodes)))

    def group(g):
        return replace(g, impls=tuple(map(impl, g.impls)))

    return tuple(replace(r, groups=tuple(map(group, r.groups))) for r in built.schedule)


def test_a_column_less(built):
    def fewer(n):
        return replace(n, inputs=n.inputs[:-1]) if n.op == "Stack" else n

    assert verify_schedule(built.graph, changed(built, fewer), built.target)


def test_a_store_of_fewer_columns(built):
    """A Store that says that it writes fewer pieces than the graph has."""

    def fewer(n):
        return replace(n, attrs={**n.attrs, "columns": 2}) if "columns" in n.attrs else n

    assert verify_schedule(built.graph, changed(built, fewer), built.target)
