"""What many pieces and many names cost is counted, not timed."""

from dataclasses import replace

import pytest

from autofuse.api import build
from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends import read
from autofuse.implgraph.division import split_reductions
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.lowering import partition as partitioning
from autofuse.implgraph.lowering.normalise import Program
from autofuse.implgraph.lowering.partition import partition
from autofuse.implgraph.lowering.remembered import Remembered
from autofuse.implgraph.rewrites.decompose import decompose
from autofuse.schedule.legal.legalize import Reserved
from autofuse.targets import load_target


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


def softmaxes(count):
    nodes = [
        node(f"n{i}", "Softmax", [f"y{i - 1}" if i else "x"], f"y{i}", axis=i % 2)
        for i in range(count)
    ]
    x = {"name": "x", "dtype": "float32", "shape": [64, 64]}
    head = {"schema": "autofuse.graph/1", "name": "softmaxes", "symbols": {}, "inputs": [x]}
    return read({**head, "nodes": nodes, "outputs": [f"y{count - 1}"]})


def test_groups_of_a_long_chain_compute_little_again():
    """Each of them would have all that comes before it: the sum would grow fourfold."""
    sizes = []
    for count in (24, 48):
        groups = partition(Program(decompose(softmaxes(count))))
        sizes.append(sum(len(g.insts) for g in groups))
    assert sizes[1] < 3 * sizes[0]


def test_a_tensor_along_too_many_axes_is_refused_while_it_is_walked():
    """The differences of an input, of those, and so on, each along windows of its own."""

    def shifted(count):
        nodes, shape = [], 1000
        for i in range(count):
            x, shape = f"y{i - 1}" if i else "x", shape - i - 1
            nodes.append(node(f"a{i}", "Slice", [x], f"a{i}", starts=[0], shape=[shape]))
            nodes.append(node(f"b{i}", "Slice", [x], f"b{i}", starts=[i + 1], shape=[shape]))
            nodes.append(node(f"s{i}", "Sub", [f"b{i}", f"a{i}"], f"y{i}"))
        x = {"name": "x", "dtype": "float32", "shape": [1000]}
        head = {"schema": "autofuse.graph/1", "name": "shifted", "symbols": {}, "inputs": [x]}
        return Program(read({**head, "nodes": nodes, "outputs": [f"y{count - 1}"]}))

    assert sum(len(g.insts) for g in partition(shifted(4))) <= 100
    with pytest.raises(AutofuseError) as caught:
        partition(shifted(36))
    (found,) = caught.value.diagnostics
    assert found.code == "AF2104"
    assert found.where.pointer.startswith("/nodes/")


def test_a_cut_forms_those_groups_again_that_came_to_it(monkeypatch):
    """All others stay as they are: the sum would be cuts times groups."""
    formed = 0
    first = partitioning._Plan._first

    def counted(self, result):
        nonlocal formed
        formed += 1
        return first(self, result)

    monkeypatch.setattr(partitioning._Plan, "_first", counted)
    for count in (24, 48):
        formed = 0
        groups = partition(Program(decompose(softmaxes(count))))
        assert formed <= 5 * len(groups)


def test_groups_are_the_same_whether_they_are_remembered_or_not(monkeypatch):
    graph = decompose(softmaxes(12))
    known = partition(Program(graph))
    monkeypatch.setattr(Remembered, "forget", lambda self, _: self._known.clear())
    anew = partition(Program(graph))
    assert [g.results for g in known] == [g.results for g in anew]
    assert [g.insts for g in known] == [g.insts for g in anew]
    assert [g.cuts for g in known] == [g.cuts for g in anew]


def test_who_else_reads_a_tensor_is_not_looked_for_in_the_whole_graph(monkeypatch):
    """Of a reduction of few elements it does not matter; of others the search ends at what is certain."""
    looked = 0
    is_elementwise = split_reductions._is_elementwise

    def counted(n):
        nonlocal looked
        looked += 1
        return is_elementwise(n)

    monkeypatch.setattr(split_reductions, "_is_elementwise", counted)
    counts = []
    for count in (20, 40):
        looked = 0
        graph = softmaxes(count)
        large = {n: replace(t, shape=(const(4096), const(64))) for n, t in graph.tensors.items()}
        graph = decompose(replace(graph, tensors=large))
        split_reductions.split_reductions(graph, load_target("ascend910b1"))
        counts.append(looked)
    assert counts[0]
    assert counts[1] < 3 * counts[0]


def test_names_that_other_groups_have_are_passed_at_once():
    names = {"scalar", *(f"scalar_{k}" for k in range(1, 500) if k != 250)}
    reserved = Reserved(names)
    assert [reserved.behind("scalar", k) for k in (0, 7, 250, 251, 600)] == [
        250,
        250,
        250,
        500,
        600,
    ]
    asked = 0

    class Counted(frozenset):
        def __contains__(self, name):
            nonlocal asked
            asked += 1
            return super().__contains__(name)

    reserved._names = Counted(names)
    for _ in range(100):
        reserved.behind("scalar", 0)
    assert asked <= 300
