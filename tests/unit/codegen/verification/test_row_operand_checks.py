"""Checks of calls with an element per row: any other extents, operands or room are a finding."""

from __future__ import annotations

from dataclasses import replace

import pytest
from twin_graphs import graph

from autofuse.api import build
from autofuse.codegen.functions import row_operands
from autofuse.codegen.verification import verify_schedule

CHANGES = {
    "none": (0, 0),
    "a row more": (1, 0),
    "a row less": (-1, 0),
    "shorter rows": (0, -1),
    "longer rows": (0, 8),
}


@pytest.fixture(scope="module", params=[(400, 768), (400, 77), ("m", "n")], ids=str)
def built(request):
    rows, columns = request.param
    symbols = {s: {"min": 1, "max": 5000} for s in request.param if isinstance(s, str)}
    nodes = [("y", "Softmax", ["x"], {"axis": 1})]
    return build(graph({"x": ("float32", [rows, columns])}, nodes, **symbols), verify_ir=False)


@pytest.mark.parametrize("change", CHANGES)
def test_extents(built, change, monkeypatch):
    more = CHANGES[change]
    extents = row_operands.row_extents
    seen = []

    def changed(n, source, sizes):
        rows, cols = extents(n, source, sizes)
        seen.append(n.name)
        return [_product(rows) + more[0]], [_product(cols) + more[1]]

    monkeypatch.setattr(row_operands, "row_extents", changed)
    found = verify_schedule(built.graph, built.schedule, built.target)
    assert seen
    assert bool(found) == (change != "none"), found


def _product(sizes):
    return row_operands.product(sizes)


def test_less_scratch_space(built):
    def smaller(i):
        sizes = {b.id for n in i.nodes if n.op.endswith("Row") for b in n.tmp_buffers}
        buffers = (
            replace(b, nbytes=b.nbytes - 32) if b.id in sizes and b.kind != "queue" else b
            for b in i.buffers
        )
        return replace(i, buffers=tuple(buffers))

    made = tuple(
        replace(r, groups=tuple(replace(g, impls=tuple(map(smaller, g.impls))) for g in r.groups))
        for r in built.schedule
    )
    assert verify_schedule(built.graph, made, built.target)
