"""Divided sums that follow divided reductions: what is recognised, how often data are gone through, what it means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lowering_checks import dims, graph

from autofuse.implgraph.check.verify import verify
from autofuse.implgraph.division.online_parts import Follower, follower_of
from autofuse.implgraph.division.split_reductions import split_reductions
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, Symbol
from autofuse.implgraph.lowering.lowering import groups, lower, lower_all
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.rewrites.decompose import decompose
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")
ROWS = {"axes": (1,), "keepdims": True}
FLAT = {"axes": (1,)}
MAX = ("m", "ReduceMax", ["x"], ROWS)
MEAN = ("m", "ReduceMean", ["x"], ROWS)
BELOW = ("d", "Sub", ["x", "m"])
POWERS = [MAX, BELOW, ("e", "Exp", ["d"]), ("s", "ReduceSum", ["e"], ROWS)]
SQUARES = [MEAN, BELOW, ("q", "Square", ["d"]), ("s", "ReduceSum", ["q"], ROWS)]
COLUMN = {"shape": dims(3, 1)}


def over(nodes, columns, outputs=("s",), rows=3, dtype="float32"):
    """A graph over ``x`` and ``z`` of the same shape, ``w`` with a number per row and ``k`` of one element."""
    used = sorted({x for _, _, xs, *_ in nodes for x in xs if x in ("x", "z", "w", "k")})
    shapes = {"x": (rows, columns), "z": (rows, columns), "w": (rows, 1), "k": (1,)}
    made = graph({n: shapes[n] for n in used}, nodes, list(outputs), dtype=dtype)
    symbols = tuple(Symbol(s, 0, 1 << 22) for s in (rows, columns) if isinstance(s, str))
    return replace(made, symbols=symbols)


def follower(g: FusionGraph) -> Follower | None:
    """The rule of the last sum."""
    g = decompose(g)
    last = [n for n in g.nodes if n.op == "ReduceSum"][-1]
    return follower_of(last, g.nodes, g.tensors)


def loads(g: FusionGraph, name: int = 0) -> int:
    """How many groups of the divided form read an input."""
    hint = canonicalise(lower_all(g, CHIP)[-1])
    assert verify(hint) == []
    return sum(n.op == "Load" and n.inputs[0] == f"Data_{name}" for n in hint.nodes)


FOLLOW = {
    "powers": POWERS,
    "squares": SQUARES,
    "opposite of the maximum": [
        MAX,
        ("c", "Neg", ["m"]),
        ("d", "Add", ["c", "x"]),
        *POWERS[2:],
    ],
    "dimensions gone and back": [
        ("t", "ReduceMax", ["x"], FLAT),
        ("m", "Reshape", ["t"], COLUMN),
        *POWERS[1:],
    ],
    "written out broadcast": [
        MAX,
        ("b", "Broadcast", ["m"], {"shape": dims(3, 500_009)}),
        ("d", "Sub", ["x", "b"]),
        *POWERS[2:],
    ],
    "multiple": [MAX, BELOW, ("f", "Mul", [Constant(0.5), "d"]), ("e", "Exp", ["f"]), POWERS[3]],
    "other data": [*POWERS[:3], ("f", "Mul", ["e", "z"]), ("s", "ReduceSum", ["f"], ROWS)],
    "a number per row": [*POWERS[:3], ("f", "Mul", ["e", "w"]), ("s", "ReduceSum", ["f"], ROWS)],
    "one number": [*POWERS[:3], ("f", "Div", ["e", "k"]), ("s", "ReduceSum", ["f"], ROWS)],
    "multiple of squares": [
        *SQUARES[:3],
        ("f", "Mul", ["q", Constant(-3.0)]),
        ("s", "ReduceSum", ["f"], ROWS),
    ],
    "two means": [
        MEAN,
        ("n", "ReduceMean", ["z"], ROWS),
        BELOW,
        ("f", "Sub", ["z", "n"]),
        ("q", "Mul", ["d", "f"]),
        ("s", "ReduceSum", ["q"], ROWS),
    ],
    "at least a number": [
        MAX,
        ("c", "Maximum", ["m", Constant(0.5)]),
        ("d", "Sub", ["x", "c"]),
        *POWERS[2:],
    ],
}
WAIT = {
    "distances": [MEAN, BELOW, ("e", "Abs", ["d"]), POWERS[3]],
    "above a minimum": [("m", "ReduceMin", ["x"], ROWS), *POWERS[1:]],
    "a mean of something else": [
        ("t", "ReduceSum", ["x"], ROWS),
        ("m", "Div", ["t", Constant(32.0)]),
        *SQUARES[1:],
    ],
}


@pytest.mark.parametrize("nodes", FOLLOW.values(), ids=FOLLOW)
def test_one_phase_goes_through_the_operand_once(nodes):
    """In parts, and in the rest of 41 of them."""
    g = over(nodes, 500_009)
    assert follower(g) is not None
    assert loads(g) == 2


@pytest.mark.parametrize("nodes", WAIT.values(), ids=WAIT)
def test_what_no_rule_covers_has_a_phase_of_its_own(nodes):
    g = over(nodes, 500_009)
    assert follower(g) is None
    assert loads(g) == 4


def test_the_maximum_of_other_data_is_no_bound():
    assert follower(over([MAX, ("d", "Sub", ["z", "m"]), *POWERS[2:]], 500_009)) is None


def test_numbers_of_other_rows_are_none_of_these():
    """In a square, a row of maxima of rows goes along the columns."""
    nodes = [("m", "ReduceMax", ["x"], FLAT), *POWERS[1:]]
    assert follower(over(nodes, 40, rows=40)) is None
    nodes = [("m", "ReduceMax", ["x"], {"axes": (0,), "keepdims": True}), *POWERS[1:]]
    assert follower(over(nodes, 40, rows=40)) is None


TURNED = {
    "turned": ("t", "Transpose", ["m"], {"perm": (1, 0, 2)}),
    "backwards": (
        "t",
        "Slice",
        ["m"],
        {"starts": dims(0, 3, 0), "shape": dims(4, 4, 1), "steps": (1, -1, 1)},
    ),
    "the first column again": ("t", "Concat", ["f", "f", "f", "f"], {"axis": 1}),
}
CENTRED = {
    "below": (("m", "ReduceMax", ["x"], {"axes": (2,), "keepdims": True}), "Exp"),
    "about": (("m", "ReduceMean", ["x"], {"axes": (2,), "keepdims": True}), "Square"),
}


@pytest.mark.parametrize(("centre", "op"), CENTRED.values(), ids=CENTRED)
@pytest.mark.parametrize("move", TURNED.values(), ids=TURNED)
def test_a_number_of_another_row_is_no_centre(move, centre, op):
    """What moves numbers to other rows is no view, though it has as many elements."""
    nodes = [
        centre,
        ("f", "Slice", ["m"], {"starts": dims(0, 0, 0), "shape": dims(4, 1, 1)}),
        move,
        ("d", "Sub", ["x", "t"]),
        ("e", op, ["d"]),
        ("s", "ReduceSum", ["e"], {"axes": (2,), "keepdims": True}),
    ]
    g = graph({"x": (4, 4, 100_003)}, nodes, ["s"])
    assert follower(g) is None
    hint, plain = canonicalise(lower_all(g, CHIP)[-1]), canonicalise(lower(g))
    x = (np.random.default_rng(1).normal(size=(4, 4, 100_003)) * 2).astype(np.float32)
    t = x.max(2, keepdims=True) if op == "Exp" else x.mean(2, keepdims=True, dtype=np.float64)
    for h in (hint, plain):
        (got,) = interpret(h, [x.ravel()], {})
        moved = {
            "Transpose": lambda a: a.transpose(1, 0, 2),
            "Slice": lambda a: a[:, ::-1],
            "Concat": lambda a: np.repeat(a[:, :1], 4, 1),
        }[move[1]](t)
        d = x.astype(np.float64) - moved
        want = (np.exp(d) if op == "Exp" else d * d).sum(2)
        np.testing.assert_allclose(got, want.ravel(), rtol=1e-3)


def test_a_softmax_has_three_phases():
    """Parts, their rest and what is made of both, and the results."""
    g = over([("s", "Softmax", ["x"], {"axis": 1})], 500_009)
    hint = canonicalise(lower_all(g, CHIP)[-1])
    assert len(groups(hint)) == 4
    assert loads(g) == 3


def test_nodes_of_no_further_use_are_left_out():
    found = split_reductions(decompose(over(POWERS, 48 * 8192)), CHIP)
    made = {n.outputs[0] for n in found.nodes}
    assert "d" not in made
    assert "e" not in made
    assert set(found.tensors) == made | {"x"}
    for n in found.nodes:
        operands = [found.tensors[x] if isinstance(x, str) else x for x in n.inputs]
        y = found.tensors[n.outputs[0]]
        assert infer_node(lookup(n.op), operands, dict(n.attrs)) == (y.dtype, y.shape), n.op


@pytest.mark.parametrize("columns", ["n", 500_009])
def test_rows_of_nothing_are_a_matter_of_outputs_that_have_elements_then(columns):
    for nodes, has in ((POWERS, True), ([("s", "Softmax", ["x"], {"axis": 1})], False)):
        g = over(nodes, columns)
        found = split_reductions(decompose(g), CHIP, symbolic=True)
        assert len(found.nodes) > len(decompose(g).nodes)
        assert any(n.op == "Select" for n in found.nodes) == (has and columns == "n")


def test_sums_that_follow_the_same_maximum_share_what_they_have_in_common():
    nodes = [*POWERS, ("f", "Mul", ["e", "z"]), ("t", "ReduceSum", ["f"], ROWS)]
    found = split_reductions(decompose(over(nodes, 500_009, ["s", "t"])), CHIP)
    # Of parts and of the rest: the powers themselves, and how far the maximum has moved for each of the sums.
    assert sum(n.op == "Exp" for n in found.nodes) == 2 + 4


# what it means --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FOLLOW)
@pytest.mark.parametrize("columns", ["n", 300_007])
def test_sums_of_parts_come_to_those_of_rows(name, columns):
    nodes = [
        ("b", op, xs, {"shape": dims(3, columns)}) if op == "Broadcast" else (y, op, xs, *attrs)
        for y, op, xs, *attrs in FOLLOW[name]
    ]
    g = over(nodes, columns)
    hint, plain = canonicalise(lower_all(g, CHIP)[-1]), canonicalise(lower(g))
    assert verify(hint) == []
    assert len(groups(hint)) > 1
    rng = np.random.default_rng(len(name))
    for n in (0, 1, 2, 47, 48, 49, 97, 4999) if columns == "n" else (columns,):
        env = {"n": n} if columns == "n" else {}
        inputs = [rng.normal(size=_size(g, x, env)).astype(np.float32) for x in g.inputs]
        with np.errstate(all="ignore"):
            (got,) = interpret(hint, inputs, env)
            (want,) = interpret(plain, inputs, env)
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


def _size(g: FusionGraph, name: str, env: dict[str, int]) -> int:
    return int(np.prod([s.evaluate(env) for s in g.tensors[name].shape]))
