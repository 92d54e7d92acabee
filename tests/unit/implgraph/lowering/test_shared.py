"""Cuts that the cost model decides on: what several groups compute, and transpositions beside other work."""

from __future__ import annotations

from typing import Any

import draws
import pytest
from twin_graphs import CHIP, check, graph

from autofuse import api
from autofuse.implgraph.division.split_reductions import split_forms
from autofuse.implgraph.lowering import lowering
from autofuse.implgraph.lowering.lowering import _lowered, lower_all
from autofuse.implgraph.lowering.normalise import Program
from autofuse.implgraph.lowering.partition import partition
from autofuse.implgraph.lowering.shared import computed_in_several, transposed_apart
from autofuse.implgraph.rewrites.decompose import decompose
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import result_cycles

F = "float32"


def program(document: dict[str, Any]) -> Program:
    return Program(decompose(api.build(document, target=CHIP).graph))


def sums_both_ways(rows: int, columns: int, operands: int) -> dict[str, Any]:
    """Sums along both dimensions of a sum of operands: two groups, each of which computes it."""
    names = [f"x{i}" for i in range(operands)]
    nodes: list[tuple[Any, ...]] = [("t0", "Abs", ["x0"])]
    nodes += [(f"t{i}", "Add", [f"t{i - 1}", f"x{i}"]) for i in range(1, operands)]
    last = f"t{operands - 1}"
    nodes += [
        ("r", "ReduceSum", [last], {"axes": [1]}),
        ("c", "ReduceSum", [last], {"axes": [0]}),
    ]
    return graph({n: (F, [rows, columns]) for n in names}, nodes, ["r", "c"])


@pytest.mark.parametrize(("operands", "found"), [(1, ()), (2, ()), (3, ("t2",)), (5, ("t4",))])
def test_a_tensor_is_cut_that_has_fewer_bytes_than_what_it_is_computed_from(operands, found):
    """Two groups load n operands each: 2 n, with a cut n, a write and a read."""
    made = program(sums_both_ways(64, 48, operands))
    assert computed_in_several(partition(made)) == found


def test_what_is_written_anyway_costs_no_write():
    document = sums_both_ways(64, 48, 2)
    document["outputs"].append("t1")
    assert computed_in_several(partition(program(document))) == ("t1",)


def test_one_group_shares_nothing():
    made = program(
        graph(
            {"x": (F, [64, 48])},
            [("a", "Abs", ["x"]), ("y", "Exp", ["a"]), ("z", "Neg", ["a"])],
            ["y", "z"],
        )
    )
    assert computed_in_several(partition(made)) == ()


def windows(batch: int, channels: int, windows: int) -> dict[str, Any]:
    """A norm over the channels of images, cut into windows of 7 x 7 positions and given back as images."""
    side = 7 * windows
    image = [batch, channels, side, side]
    nodes = [
        ("s", "Add", ["x", "z"]),
        ("t", "Transpose", ["s"], {"perm": [0, 2, 3, 1]}),
        ("m", "ReduceMean", ["t"], {"axes": [3], "keepdims": True}),
        ("c", "Sub", ["t", "m"]),
        ("w", "Mul", ["c", "g"]),
        ("p", "Reshape", ["w"], {"shape": [batch, windows, 7, windows, 7, channels]}),
        ("y", "Transpose", ["p"], {"perm": [0, 1, 3, 2, 4, 5]}),
        ("b", "Transpose", ["c"], {"perm": [0, 3, 1, 2]}),
    ]
    return graph({"x": (F, image), "z": (F, image), "g": (F, [channels])}, nodes, ["s", "y", "b"])


def test_transpositions_of_the_innermost_dimension_have_a_cut_on_each_side():
    behind, front = transposed_apart(program(windows(2, 16, 2)))
    assert behind == ("t",)  # b is an output, and the windows keep their rows
    assert front == ("c",)  # s is one


@pytest.mark.twin
@pytest.mark.parametrize("only", ["computed_in_several", "transposed_apart"])
def test_the_forms_are_right(only, monkeypatch):
    """Every form with cuts, not only those that the model takes."""
    taken: list[int] = []

    def last_forms(*args: Any, **kwargs: Any) -> Any:
        forms = lower_all(*args, **kwargs)
        taken.append(len(forms))
        return forms[-1:]

    for other in {"computed_in_several", "transposed_apart", "in_row_parts"} - {only}:
        nothing = {"transposed_apart": ((), ())}.get(other, ())
        stand_in = (
            (lambda graph, target: graph) if other == "in_row_parts" else lambda _, n=nothing: n
        )
        monkeypatch.setattr(lowering, other, stand_in)
    monkeypatch.setattr("autofuse.compiler.lower_all", last_forms)
    for document in (sums_both_ways(37, 50, 4), windows(2, 16, 2)):
        check(document, seed=draws.seed())
    assert max(taken) > 1


def shared_by_two_layouts(batch: int, rows: int, columns: int) -> dict[str, Any]:
    """A sum of four operands as it is, and its halves side by side in another order."""
    shape, names = [batch, rows, columns], ["x0", "x1", "x2", "x3"]
    nodes: list[tuple[Any, ...]] = [("t0", "Abs", ["x0"])]
    nodes += [(f"t{i}", "Add", [f"t{i - 1}", f"x{i}"]) for i in (1, 2, 3)]
    nodes += [
        ("y", "Exp", ["t3"]),
        ("c", "Concat", ["x0", "t3"], {"axis": 2}),
        ("s", "ReduceSum", ["t3"], {"axes": [1]}),
    ]
    return graph({n: (F, shape) for n in names}, nodes, ["y", "c", "s"])


@pytest.mark.parametrize(
    ("document", "switched_off", "least"),
    [
        (windows(16, 640, 2), {"transposed_apart": ((), ()), "computed_in_several": ()}, 2.0),
        (shared_by_two_layouts(32, 1024, 768), {"computed_in_several": ()}, 1.2),
    ],
)
def test_it_is_faster(document, switched_off, least, monkeypatch):
    def cycles() -> float:
        return min(
            result_cycles(r, Costs(CHIP)) or 0.0 for r in api.build(document, target=CHIP).schedule
        )

    now = cycles()
    for name, nothing in switched_off.items():
        monkeypatch.setattr(lowering, name, lambda _, n=nothing: n)
    assert cycles() > least * now


def test_groups_that_compute_a_cut_tensor_along_the_way_do_not_read_it():
    """Mergers of groups: one computes what it writes for others, and stays able to when a third one joins."""
    rows, columns = 1024, 1152
    images, flat = [16, columns, rows], [16, rows, columns]
    nodes = [
        ("t", "Transpose", ["x"], {"perm": [0, 2, 1]}),
        ("a", "Sub", ["t", "mean"]),
        ("b", "Mul", ["dy", "a"]),
        ("r", "ReduceSum", ["b"], {"axes": [2], "keepdims": True}),
        ("u", "Mul", ["a", "r"]),
        ("y", "Add", ["dy", "u"]),
        ("p", "ReduceSum", ["b"], {"axes": [0, 1]}),
        ("q", "ReduceSum", ["dy"], {"axes": [0, 1]}),
    ]
    inputs = {"x": (F, images), "dy": (F, flat), "mean": (F, [16, rows, 1])}
    written = decompose(api.read(graph(inputs, nodes, ["p", "q", "y"])))
    for form in split_forms(written, CHIP):
        hint, groups = _lowered(form, True, cuts=("x", "t"))
        assert len(groups) > 1
        assert hint.nodes
