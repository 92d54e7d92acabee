"""Checks of short rows that become long ones in UB: a call with any other extent or table than its own is a finding."""

from __future__ import annotations

from dataclasses import replace

import pytest
from changed_counts import change_counts

from autofuse.api import build
from autofuse.codegen.functions import FUNCTIONS
from autofuse.codegen.ir.calls import SizeValue
from autofuse.codegen.verification import verify_schedule

CHANGES = {
    "none": (0, 0, 0, 0),
    "a run more": (1, 0, 0, 0),
    "a row less": (0, -1, 0, 0),
    "a row more": (0, 1, 0, 0),
    "shorter rows": (0, 0, -1, 0),
    "longer rows": (0, 0, 1, 0),
    "another pitch": (0, 0, 0, 8),
    "an unaligned pitch": (0, 0, 0, -1),
}
#: Shapes, and how they are transposed; of the third a tile has several runs, as of the fourth with padding.
GRAPHS = [
    ((7, 4, 2000), (0, 2, 1)),
    ((7, 2000, 3), (0, 2, 1)),
    ((90, 3, 64), (0, 2, 1)),
    ((90, 3, 50), (0, 2, 1)),
    (("n", 3), (1, 0)),
]


@pytest.fixture(scope="module", params=GRAPHS, ids=str)
def built(request):
    shape, perm = request.param
    attrs = {"perm": list(perm)}
    # The exponential keeps a Load from being the run that is picked for a Store.
    return build(
        {
            "schema": "autofuse.graph/1",
            "name": "k",
            "symbols": {s: {"min": 1, "max": 5000} for s in shape if isinstance(s, str)},
            "inputs": [{"name": "x", "dtype": "float32", "shape": list(shape)}],
            "nodes": [
                {"name": "e", "op": "Exp", "inputs": ["x"], "outputs": ["t"]},
                {"name": "n", "op": "Transpose", "inputs": ["t"], "outputs": ["y"], "attrs": attrs},
            ],
            "outputs": ["y", "t"],
        },
        verify_ir=False,
    )


@pytest.mark.parametrize("change", CHANGES)
def test_extents(built, change, monkeypatch):
    def changed(counts):
        return [c + d for c, d in zip(counts, CHANGES[change], strict=True)]

    seen = change_counts(monkeypatch, ["Lace", "Unlace", "UnlaceByMask"], changed)
    found = verify_schedule(built.graph, built.schedule, built.target)
    assert seen
    assert bool(found) == (change != "none"), found


@pytest.mark.parametrize("width", [4, 6])
@pytest.mark.parametrize("change", [0, 1, 2, 3, 4, 5, None])
def test_extents_of_rows_that_lie_apart(width, change, monkeypatch):
    """Columns of which a tile has two parts."""
    attrs = [{"starts": [0, c], "shape": [3000, 2], "steps": [1, 1]} for c in (0, width - 2)]
    parts = [
        {"name": f"s{n}", "op": "Slice", "inputs": ["x"], "outputs": [n], "attrs": a}
        for n, a in zip("ab", attrs, strict=True)
    ]
    found = build(
        {
            "schema": "autofuse.graph/1",
            "name": "k",
            "inputs": [{"name": "x", "dtype": "float32", "shape": [3000, width]}],
            "nodes": [*parts, {"name": "n", "op": "Sub", "inputs": ["a", "b"], "outputs": ["y"]}],
            "outputs": ["y"],
        },
        verify_ir=False,
    )

    def changed(counts):
        if len(counts) != 6:
            return counts
        return [c + 1 if i == change else c for i, c in enumerate(counts)]

    seen = change_counts(monkeypatch, ["Lace", "Unlace", "UnlaceByMask"], changed)
    assert bool(verify_schedule(found.graph, found.schedule, found.target)) == (change is not None)
    assert any(len(counts) == 6 for counts in seen)


@pytest.mark.parametrize("place", range(3))
def test_a_table_for_other_rows(built, place, monkeypatch):
    seen, places = [], FUNCTIONS["LaceOffsets"]

    def other(p):
        sizes = [i for i, a in enumerate(p.call.args) if isinstance(a, SizeValue)]
        seen.append(p)
        args = list(p.call.args)
        args[sizes[place]] = replace(args[sizes[place]], value=args[sizes[place]].value + 8)
        return places.covers(replace(p, call=replace(p.call, args=tuple(args))))

    monkeypatch.setitem(FUNCTIONS, "LaceOffsets", replace(places, covers=other))
    assert bool(verify_schedule(built.graph, built.schedule, built.target)) == bool(seen)


@pytest.mark.parametrize("op", ["Lace", "Unlace"])
def test_a_table_is_that_of_the_call(op, monkeypatch):
    """A kernel whose node has the table of other rows."""
    shape = (7, 3, 2000) if op == "Lace" else (7, 2000, 3)
    found = build(
        {
            "schema": "autofuse.graph/1",
            "name": "k",
            "inputs": [{"name": "x", "dtype": "float32", "shape": list(shape)}],
            "nodes": [
                {
                    "name": "n",
                    "op": "Transpose",
                    "inputs": ["x"],
                    "outputs": ["y"],
                    "attrs": {"perm": [0, 2, 1]},
                }
            ],
            "outputs": ["y"],
        },
        verify_ir=False,
    )
    attr = {"Lace": ("LaceOffsets", "k"), "Unlace": ("PickOffsets", "step")}[op]

    def mistaken(n):
        if n.op != attr[0]:
            return n
        return replace(n, attrs={**n.attrs, attr[1]: int(str(n.attrs[attr[1]])) + 4})

    def swapped(impl):
        return replace(impl, nodes=tuple(mistaken(n) for n in impl.nodes))

    schedule = tuple(
        replace(r, groups=tuple(replace(g, impls=tuple(map(swapped, g.impls))) for g in r.groups))
        for r in found.schedule
    )
    tables = [n for r in schedule for g in r.groups for i in g.impls for n in i.nodes]
    assert any(n.op == attr[0] for n in tables)
    assert verify_schedule(found.graph, schedule, found.target)
