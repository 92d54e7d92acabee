"""Tensors that a cut computes once, where loops would compute them again for every row they are broadcast over."""

from __future__ import annotations

import draws
import pytest
from twin_graphs import check, graph

from autofuse import api
from autofuse.implgraph.division.once import _repeated, computed_once
from autofuse.implgraph.rewrites.decompose import decompose
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")
F = "float32"


@pytest.mark.parametrize(
    ("shape", "whole", "times"),
    [
        ((512, 64), (4, 32, 512, 64), 128),
        ((4, 1, 512, 64), (4, 32, 512, 64), 32),
        ((4, 1, 1, 64), (4, 32, 512, 64), 32 * 512),
        ((4, 32, 512, 1), (4, 32, 512, 64), 1),  # one element per row
        ((1,), (4, 32), 1),
        ((4, 32), (4, 32), 1),
        ((), (4, 32), 1),
        ((0, 1, 64), (0, 9, 64), 9),
    ],
)
def test_loops_outside(shape, whole, times) -> None:
    assert _repeated(shape, whole) == times


def rotation(batch, heads, tokens, width, *, function="Cos"):
    """Rows times a function of positions, as in a rotary embedding."""
    inputs = {"x": (F, [batch, heads, tokens, width]), "a": (F, [tokens, width])}
    nodes = [
        ("c", function, ["a"]),
        ("r", "Reshape", ["c"], {"shape": (1, 1, tokens, width)}),
        ("y", "Mul", ["x", "r"]),
    ]
    return graph(inputs, nodes)


def cut(document) -> tuple[str, ...]:
    return computed_once(decompose(api.build(document).graph), CHIP)


def test_a_table_of_cosines_is_computed_once() -> None:
    assert cut(rotation(4, 32, 512, 64)) == ("c",)


def test_what_is_cheap_or_small_or_rarely_repeated_is_not_cut() -> None:
    assert cut(rotation(4, 32, 512, 64, function="Neg")) == ()
    assert cut(rotation(4, 32, 16, 64)) == ()
    assert cut(rotation(1, 2, 512, 64)) == ()


@pytest.mark.parametrize(("dtype", "found"), [("int64", ("t",)), ("int32", ())])
def test_a_mask_of_long_integers_is_made_once(dtype, found) -> None:
    """A comparison of 64-bit positions takes several calls, that of shorter ones one or two."""
    inputs = {"x": (F, [64, 512, 512]), "p": (dtype, [512]), "q": (dtype, [512, 1])}
    nodes = [
        ("m", "LessEqual", ["p", "q"]),
        ("t", "Select", ["m", {"const": 0.0, "dtype": F}, {"const": -1e30, "dtype": F}]),
        ("y", "Add", ["x", "t"]),
    ]
    assert cut(graph(inputs, nodes)) == found


def test_few_places_gathered_one_by_one_for_many_rows_are_found_once() -> None:
    inputs = {"t": ("int64", [1, 512]), "i": ("int64", [1, 128]), "q": ("int64", [4096, 128])}
    nodes = [("g", "GatherElements", ["t", "i"], {"axis": 1}), ("y", "LessEqual", ["g", "q"])]
    assert cut(graph(inputs, nodes)) == ("g",)


def test_places_gathered_one_by_one_are_found_once() -> None:
    inputs = {"t": ("int64", [4, 1024]), "i": ("int64", [1024]), "q": ("int64", [4, 1024, 1])}
    nodes = [
        ("g", "Gather", ["t", "i"], {"axis": 1}),
        ("k", "Reshape", ["g"], {"shape": (4, 1, 1024)}),
        ("y", "LessEqual", ["k", "q"]),
    ]
    assert cut(graph(inputs, nodes)) == ("g",)


def test_a_reduction_is_computed_once_anyway() -> None:
    inputs = {"x": (F, [8, 64, 512, 64]), "a": (F, [512, 64, 1000])}
    nodes = [
        ("e", "Exp", ["a"]),
        ("s", "ReduceSum", ["e"], {"axes": [2]}),
        ("y", "Mul", ["x", "s"]),
    ]
    assert cut(graph(inputs, nodes)) == ()


def test_a_long_chain_of_functions_is_followed() -> None:
    nodes = [("t0", "Exp", ["a"])]
    nodes += [(f"t{i}", "Neg", [f"t{i - 1}"]) for i in range(1, 3000)]
    nodes.append(("y", "Mul", ["x", "t2999"]))
    inputs = {"x": (F, [4096, 512, 64]), "a": (F, [512, 64])}
    read = api.read(graph(inputs, nodes))
    assert computed_once(read, CHIP) == ("t2999",)


@pytest.mark.twin
def test_the_cut_form_is_faster_and_right() -> None:
    heads, half = (2, 24, 512, 64), (2, 24, 512, 32)
    nodes = [
        ("c", "Cos", ["a"]),
        ("s", "Sin", ["a"]),
        ("p", "Slice", ["x"], {"starts": (0, 0, 0, 0), "shape": half}),
        ("q", "Slice", ["x"], {"starts": (0, 0, 0, 32), "shape": half}),
        ("m", "Neg", ["q"]),
        ("t", "Concat", ["m", "p"], {"axis": 3}),
        ("u", "Mul", ["x", "c"]),
        ("v", "Mul", ["t", "s"]),
        ("y", "Add", ["u", "v"]),
    ]
    built = check(graph({"x": (F, heads), "a": (F, heads[2:])}, nodes), seed=draws.seed())
    (form,) = built.schedule
    assert any(g.sync_before for g in form.groups)
    assert {w.op for w in form.hint.ops("Workspace")}
    assert any("slower by the model than form" in r.reason for r in form.rejected)


def test_symbols_have_both_forms() -> None:
    """The host chooses: few heads compute the table again."""
    inputs = {"x": (F, ["h", 512, 64]), "a": (F, [512, 64])}
    nodes = [("c", "Cos", ["a"]), ("y", "Mul", ["x", "c"])]
    document = graph(inputs, nodes, h={"min": 1, "max": 4096, "hint": 512})
    forms = api.build(document).schedule
    assert sorted(len(r.groups) for r in forms) == [1, 2]
