"""Gathers with an index that is known at build time are slices side by side."""

from __future__ import annotations

import draws
import numpy as np
import pytest
from lowering_checks import checked, dims, graph

from autofuse.implgraph.ir.fusion import Constant
from autofuse.implgraph.rewrites.decompose import decompose
from autofuse.implgraph.rewrites.known_gathers import MAX_RUNS, Run, runs_of


def line(size, start=0, step=1, dtype="int64"):
    attrs = {"shape": dims(size), "axis": 0, "dtype": dtype, "start": start, "step": step}
    return ("i", "Iota", [], attrs)


def rolled(n, by):
    return [line(n), ("a", "Add", ["i", Constant(n - by)]), ("at", "Fmod", ["a", Constant(n)])]


def reflected(n, w):
    return [
        line(n + 2 * w, -w),
        ("a", "Abs", ["i"]),
        ("b", "Sub", [Constant(n - 1), "a"]),
        ("c", "Abs", ["b"]),
        ("at", "Sub", [Constant(n - 1), "c"]),
    ]


def nearest(n, size):
    return [
        line(size),
        ("f", "Cast", ["i"], {"dtype": "float32"}),
        ("s", "Mul", ["f", Constant(n / size)]),
        ("at", "Cast", ["s"], {"dtype": "int64"}),
    ]


def gathered(shape, nodes, axis, **more):
    return graph(
        {"x": shape}, [*nodes, ("y", "Gather", ["x", "at"], {"axis": axis})], ["y"], **more
    )


def places(runs):
    return [r.start + k * r.step for r in runs for k in range(r.count)]


@pytest.mark.parametrize(
    ("at", "want"),
    [
        ([4], [Run(4, 1, 1)]),
        ([3, 4, 0, 1, 2], [Run(3, 2, 1), Run(0, 3, 1)]),
        ([2, 1, 0, 1, 2, 3, 4, 3, 2], [Run(2, 2, -1), Run(0, 5, 1), Run(3, 2, -1)]),
        ([0, 0, 0, 1, 2, 3, 4, 4, 4], [Run(0, 2, 0), Run(0, 5, 1), Run(4, 2, 0)]),
        ([0, 0, 1, 2, 2], [Run(0, 1, 1), Run(0, 3, 1), Run(2, 1, 1)]),
        ([7, 5, 3, 1], [Run(7, 4, -2)]),
        ([5, 5, 5], [Run(5, 3, 0)]),
    ],
)
def test_a_line_of_places_in_runs(at, want):
    assert list(runs_of(np.array(at))) == want


def test_runs_are_all_places_in_their_order():
    rng = draws.rng()
    many = 0
    for _ in range(2000):
        parts = [
            rng.integers(-5, 6) * np.arange(rng.integers(1, 7)) + rng.integers(50)
            for _ in range(rng.integers(1, 6))
        ]
        at = np.concatenate(parts)
        runs = runs_of(at)
        if runs is None:
            many += 1
            continue
        assert places(runs) == at.tolist(), at
        assert len(runs) <= MAX_RUNS
    assert many < 1900
    assert runs_of(np.array([0, 2, 1] * 20)) is None


@pytest.mark.parametrize(
    ("nodes", "pieces"),
    [
        (rolled(9, 2), 2),
        (rolled(9, 0), 1),
        (reflected(9, 1), 3),
        (reflected(9, 4), 3),
        ([line(9, 8, -1), ("at", "Identity", ["i"])], 1),
        ([line(3, 1, 3), ("at", "Identity", ["i"])], 1),
        ([line(18), ("at", "FloorDiv", ["i", Constant(2)])], 1),
        ([line(18), ("at", "Fmod", ["i", Constant(9)])], 1),
        (nearest(9, 27), 1),
        (nearest(9, 11), 3),
        ([line(15, -3), ("at", "Identity", ["i"])], 3),
        ([line(12, dtype="int32"), ("at", "Minimum", ["i", Constant(8)])], 2),
    ],
)
@pytest.mark.parametrize(("shape", "axis"), [((9,), 0), ((2, 9, 3), 1), ((2, 3, 9), -1)])
def test_a_known_index_is_no_load(nodes, pieces, shape, axis):
    """Places from the end and places that do not exist are those of the reference."""
    g = gathered(shape, nodes, axis)
    checked(g)
    written = decompose(g)
    assert "Gather" not in {n.op for n in written.nodes}
    joined = [len(n.inputs) for n in written.nodes if n.op == "Concat"]
    assert joined == ([pieces] if pieces > 1 else [])


def test_a_gather_of_what_is_computed_needs_no_workspace():
    nodes = [*rolled(9, 2), ("e", "Exp", ["x"]), ("y", "Gather", ["e", "at"], {"axis": 1})]
    hint = checked(graph({"x": (4, 9)}, nodes, ["y"]))
    assert list(hint.ops("Workspace")) == []


def test_an_index_of_several_dimensions():
    nodes = [line(6), ("at", "Reshape", ["i"], {"shape": dims(2, 3)})]
    written = decompose(gathered((5, 6, 2), nodes, 1))
    assert "Gather" not in {n.op for n in written.nodes}
    checked(gathered((5, 6, 2), nodes, 1))


def test_rows_may_stay_a_gather():
    kept = decompose(gathered((9, 4), rolled(9, 2), 0), gather_rows=True)
    assert "Gather" in {n.op for n in kept.nodes}
    kept = decompose(gathered((4, 9), rolled(9, 2), 1), gather_rows=True)
    assert "Gather" not in {n.op for n in kept.nodes}


def test_what_only_a_call_knows_stays_a_gather():
    def ops(g):
        return {n.op for n in decompose(g).nodes}

    inside = [line(9), ("at", "Identity", ["i"])]
    outside = [line(9, -1), ("at", "Identity", ["i"])]
    # The size of a symbol is 0 or more: which places exist is not known.
    assert "Gather" in ops(gathered(("n",), inside, 0, symbols=("n",)))
    assert "Gather" in ops(gathered(("n",), outside, 0, symbols=("n",)))
    unknown = graph(
        {"x": (9,), "k": ((1,), "int64")},
        [line(9), ("at", "Add", ["i", "k"]), ("y", "Gather", ["x", "at"], {"axis": 0})],
        ["y"],
    )
    assert "Gather" in ops(unknown)
    checked(unknown)
    size = graph(
        {"x": (9, "n")},
        [line("n"), ("y", "Gather", ["x", "i"], {"axis": 0})],
        ["y"],
        symbols=("n",),
    )
    assert "Gather" in ops(size)
    far = [line(40), ("sq", "Mul", ["i", "i"]), ("at", "Fmod", ["sq", Constant(9)])]
    assert "Gather" in ops(gathered((9,), far, 0))


def test_rows_of_a_symbol_are_cut_as_well():
    g = gathered(("n", 9, "m"), rolled(9, 4), 1, symbols=("n", "m"))
    assert "Gather" not in {n.op for n in decompose(g).nodes}
    checked(g, {"n": 3, "m": 5})


@pytest.mark.parametrize("shape", [(0, 9), (1, 9)])
def test_nothing_and_one_row(shape):
    checked(gathered(shape, rolled(9, 2), 1))


def test_one_element_and_no_places():
    checked(gathered((1, 4), [line(3), ("at", "Identity", ["i"])], 0))
    cut = {"starts": dims(0), "shape": dims(0), "steps": ()}
    checked(gathered((4, 3), [line(3), ("at", "Slice", ["i"], cut)], 0))
