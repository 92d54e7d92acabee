"""What many pieces and many names cost is counted, not timed."""

import pytest

from autofuse.api import build
from autofuse.frontends import read
from autofuse.implgraph.lowering.normalise import Program
from autofuse.implgraph.lowering.partition import partition


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
