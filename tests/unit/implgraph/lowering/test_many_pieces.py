"""What many pieces and many names cost is counted, not timed."""

import pytest

from autofuse.api import build
from autofuse.frontends import read
from autofuse.implgraph.lowering.normalise import Program
from autofuse.implgraph.lowering.partition import partition


def node(name, op, inputs, output, **attrs):
    return {"name": name, "op": op, "inputs": inputs, "outputs": [output], "attrs": attrs}


def lines_of(pieces):
    names = [f"x{i}" for i in range(pieces)]
    return read(
        {
            "schema": "autofuse.graph/1",
            "name": "joined",
            "symbols": {},
            "inputs": [
                {"name": n, "dtype": "float32", "shape": [64, 8 * (k + 1)]}
                for k, n in enumerate(names)
            ],
            "nodes": [
                {
                    "name": "join",
                    "op": "Concat",
                    "inputs": names,
                    "outputs": ["y"],
                    "attrs": {"axis": 1},
                }
            ],
            "outputs": ["y"],
        }
    )


@pytest.mark.parametrize("pieces", [8, 32])
def test_a_demand_asks_for_its_own_piece_only(pieces, monkeypatch):
    """Each of the pieces, and each run of pieces that is cut, is found without a look at those before it."""
    asked = 0
    at_least = Program.at_least

    def counted(self, a, b):
        nonlocal asked
        asked += 1
        return at_least(self, a, b)

    monkeypatch.setattr(Program, "at_least", counted)
    groups = partition(Program(lines_of(pieces)))
    assert len(groups) == pieces
    # Two walks per piece, with a few questions each.
    assert asked <= 16 * pieces


@pytest.mark.parametrize("outputs", [2, 3, 5])
def test_outputs_that_are_cut_alike_have_one_store_per_piece(outputs):
    """They join the groups of the first one's pieces one after another; each is written once."""
    nodes = [node("join", "Concat", ["a", "b"], "y0", axis=1)]
    nodes += [node(f"n{i}", "Abs" if i % 2 else "Exp", ["y0"], f"y{i}") for i in range(1, outputs)]
    graph = read(
        {
            "schema": "autofuse.graph/1",
            "name": "alike",
            "symbols": {},
            "inputs": [
                {"name": n, "dtype": "float32", "shape": [64, k]} for n, k in (("a", 64), ("b", 72))
            ],
            "nodes": nodes,
            "outputs": [f"y{i}" for i in range(outputs)],
        }
    )
    groups = partition(Program(graph))
    assert [sorted(r.output for r in g.results) for g in groups] == [list(range(outputs))] * 2


def test_where_pieces_end():
    graph = lines_of(4)
    program = Program(graph)
    assert program.ends(program.index["y"]) == [8, 24, 48, 80]


def test_names_of_many_calls_differ():
    graph = {
        "schema": "autofuse.graph/1",
        "name": "again",
        "symbols": {},
        "inputs": [{"name": "x", "dtype": "float32", "shape": [64]}],
        "nodes": [
            {
                "name": f"n{i}",
                "op": "Erf",
                "inputs": ["x" if not i else f"y{i - 1}"],
                "outputs": [f"y{i}"],
            }
            for i in range(6)
        ],
        "outputs": ["y5"],
    }
    (impl, *_) = build(graph).schedule[0].groups[0].impls
    names = [n.name for n in impl.nodes]
    assert len(names) == len(set(names))
