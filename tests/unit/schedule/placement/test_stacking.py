"""Columns that are written one by one: placed side by side in UB and stored as short rows, where that is possible."""

from __future__ import annotations

import pytest
from twin_graphs import graph

from autofuse import api
from autofuse.codegen.verification import verify_schedule
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.lowering.lowering import lower_all
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule.placement.stacking import STACK, columns_of
from autofuse.schedule.scheduler import schedule
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import result_cycles
from autofuse.schedule.templates import narrow
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")
F = "float32"


def columns(rows, widths, dtype=F, **symbols):
    """Tensors ``[rows, width]`` side by side, the first one negated."""
    shapes = {f"x{i}": (dtype, [rows, w]) for i, w in enumerate(widths)}
    names = ["t", *list(shapes)[1:]]
    nodes = [("t", "Neg", ["x0"]), ("y", "Concat", names, {"axis": 1})]
    return graph(shapes, nodes, **symbols)


def interleaved(rows, pairs):
    """A rotation of pairs: ``x0 * c - x1 * s`` and ``x0 * s + x1 * c``, side by side."""
    parts = [
        (f"x{i}", "Slice", ["x"], {"starts": (0, 0, i), "shape": (rows, pairs, 1)}) for i in (0, 1)
    ]
    nodes = [
        *parts,
        ("a", "Mul", ["x0", "c"]),
        ("b", "Mul", ["x1", "s"]),
        ("d", "Sub", ["a", "b"]),
        ("e", "Mul", ["x0", "s"]),
        ("f", "Mul", ["x1", "c"]),
        ("g", "Add", ["e", "f"]),
        ("j", "Concat", ["d", "g"], {"axis": 2}),
        ("y", "Reshape", ["j"], {"shape": (rows, 2 * pairs)}),
    ]
    inputs = {"x": (F, [rows, pairs, 2]), "c": (F, [pairs, 1]), "s": (F, [pairs, 1])}
    return graph(inputs, nodes)


def narrow_impls(document) -> list[ImplGraph]:
    built = api.build(document, verify_ir=True)
    assert verify_schedule(built.graph, built.schedule, built.target) == []
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    return [i for i in impls if i.template == narrow.NAME]


def stacks(document):
    """``k`` of every Stack, and whether its Store writes all of its output."""
    out = []
    for impl in narrow_impls(document):
        (end,) = (n for n in impl.nodes if n.op == "Output")
        store = impl.by_name()[end.inputs[0]]
        for n in impl.nodes:
            if n.op == STACK:
                assert columns_of(store) == len(n.inputs)
                out.append((len(n.inputs), "pieces" not in end.attrs))
    return out


@pytest.mark.parametrize("count", [2, 3, 4, 8, 16])
def test_columns_are_one_store(count):
    assert stacks(columns(5000, [1] * count)) == [(count, True)]


def test_wider_columns():
    assert stacks(columns(5000, [2, 2, 2])) == [(3, True)]


@pytest.mark.parametrize(("widths", "count"), [([4, 1], 5), ([2, 4, 2], 4), ([3, 6], 3)])
def test_columns_of_different_widths_are_cut(widths, count):
    assert stacks(columns(5000, widths)) == [(count, True)]


def test_a_rotation_of_pairs_loads_them_once():
    found = narrow_impls(interleaved(4096, 64))
    assert found
    for impl in found:
        ops = [n.op for n in impl.nodes]
        assert (ops.count(STACK), ops.count("Store"), ops.count("Load")) == (1, 1, 3)


def test_they_take_a_fraction_of_storing_them_one_by_one():
    hints = [canonicalise(h) for h in lower_all(api.read(columns(50_000, [1, 1, 1])), CHIP)]
    together, apart = (result_cycles(*schedule(h, CHIP), Costs(CHIP)) for h in hints)
    assert 10 * together < apart


@pytest.mark.parametrize(
    ("what", "document"),
    [
        ("64 bits", columns(5000, [1, 1], "int64")),
        ("rows of more than 64 bytes", columns(5000, [9, 9])),
        ("more than 16 columns", columns(5000, [1, 12, 4])),
        ("a few rows", columns(15, [4, 1])),
    ],
)
def test_others_stay_apart(what, document):
    assert stacks(document) == []


def test_rows_that_are_known_at_run_time_only():
    assert stacks(columns("n", [1, 1, 1], n={"min": 1, "max": 1 << 30})) == [(3, True)]


def test_pieces_of_pieces():
    """Two stacks one after the other: each writes its part of the output."""
    shapes = {n: (F, [rows, 1]) for n, rows in (("a", 900), ("b", 900), ("c", 700), ("d", 700))}
    nodes = [
        ("p", "Concat", ["a", "b"], {"axis": 1}),
        ("q", "Concat", ["c", "d"], {"axis": 1}),
        ("y", "Concat", ["p", "q"], {"axis": 0}),
    ]
    assert stacks(graph(shapes, nodes)) == [(2, False), (2, False)]


def test_what_is_too_much_together_is_computed_one_by_one():
    """Of 64 bits no Stack is made, and loads that several Stores write are not alive together."""
    names = [f"x{i}" for i in range(3)]
    nodes = [("y", "Concat", [*names, *reversed(names)], {"axis": 1})]
    for rows in (16, "n"):
        symbols = {"n": {"min": 1, "max": 1 << 20}} if rows == "n" else {}
        document = graph({n: ("int64", [rows, 1]) for n in names}, nodes, **symbols)
        built = api.build(document, verify_ir=True)
        assert verify_schedule(built.graph, built.schedule, built.target) == []
