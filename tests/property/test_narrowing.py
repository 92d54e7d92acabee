"""Random chains of integers, some of them narrow: every result is the same, bit by bit."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowering_checks import graph

from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Constant, FusionGraph
from autofuse.implgraph.lowering.lowering import lower_written
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.implgraph.rewrites.narrowing import narrowed
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")
N = 12
EDGES = [
    0,
    1,
    7,
    100,
    (1 << 12) + 1,
    1 << 12,
    (1 << 24) - 1,
    1 << 24,
    (1 << 31) - 1,
    1 << 31,
    1 << 40,
]
COMPARED = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
BINARY = ("Add", "Sub", "Mul", "Maximum", "Minimum", "FloorDiv", "TruncDiv", "Remainder", "Fmod")
UNARY = ("Neg", "Abs", "Square", "Sign", "Relu", "Identity")


@st.composite
def chains(draw: st.DrawFn) -> FusionGraph:
    """Integers of one dtype from loads, bytes, bools and indices; truths, floats and integers made of them."""
    wide = draw(st.sampled_from(["int64", "int64", "int32"]))
    nodes: list[tuple] = [
        ("b", "Cast", ["bool"], {"dtype": wide}),
        ("u", "Cast", ["byte"], {"dtype": wide}),
        ("w", "Cast", ["word"], {"dtype": wide}),
    ]
    step, start = draw(st.integers(-9, 9)), draw(st.sampled_from([0, 5, -3, 1 << 23]))
    line = {"shape": (const(N),), "axis": 0, "dtype": wide, "start": start, "step": step}
    nodes.append(("i", "Iota", [], line))
    numbers, truths, results = ["b", "u", "w", "i", "x"], ["bool"], []
    if wide == "int32":
        numbers.remove("x")

    def operand():
        if draw(st.integers(0, 2)) == 0:
            value = draw(st.sampled_from(EDGES)) * draw(st.sampled_from([1, -1]))
            fits = abs(value) < 1 << (BY_NAME[wide].bits - 1)
            return Constant(value if fits else 3, BY_NAME[wide])
        return draw(st.sampled_from(numbers))

    for k in range(draw(st.integers(2, 9))):
        kind = draw(st.sampled_from(["binary", "unary", "select", "compare", "float", "sum"]))
        name, x = f"t{k}", draw(st.sampled_from(numbers))
        if kind == "binary":
            nodes.append((name, draw(st.sampled_from(BINARY)), [x, operand()]))
        elif kind == "unary":
            nodes.append((name, draw(st.sampled_from(UNARY)), [x]))
        elif kind == "select":
            nodes.append((name, "Select", [draw(st.sampled_from(truths)), x, operand()]))
        elif kind == "sum":
            nodes.append((name, "CumSum", [x], {"axis": 0}))
        elif kind == "compare":
            nodes.append(
                (name, draw(st.sampled_from(COMPARED)), draw(st.permutations([x, operand()])))
            )
        else:
            nodes.append(
                (
                    name,
                    "Cast",
                    [x],
                    {"dtype": draw(st.sampled_from(["float32", "float16", "bool"]))},
                )
            )
        if kind == "compare":
            truths.append(name)
        if kind in ("compare", "float"):
            results.append(name)
        else:
            numbers.append(name)
            if draw(st.integers(0, 4)) == 0:
                results.append(name)
    inputs = {
        "bool": ((N,), "bool"),
        "byte": ((N,), "uint8"),
        "word": ((N,), "int32"),
        "x": ((N,), "int64"),
    }
    return graph(inputs, nodes, results or ["i"])


def loaded(seed: int) -> list[np.ndarray]:
    """Small numbers, large ones, and those around 2^24."""
    rng = np.random.default_rng(seed)
    x = rng.choice(EDGES, N) * rng.choice([1, -1], N) + rng.integers(-2, 3, N)
    word = np.clip(rng.choice(EDGES, N) + rng.integers(-2, 3, N), -(1 << 31), (1 << 31) - 1)
    x[0], word[0] = np.iinfo(np.int64).min, -(1 << 31)
    return [
        rng.random(N) < 0.5,
        rng.integers(0, 256, N).astype(np.uint8),
        word.astype(np.int32),
        x.astype(np.int64),
    ]


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(chains(), st.integers(0, 999))
def test_results_stay(g, seed):
    made = narrowed(g, CHIP)
    for n in made.nodes:
        operands = [made.tensors[x] if isinstance(x, str) else x for x in n.inputs]
        y = made.tensors[n.outputs[0]]
        assert infer_node(lookup(n.op), operands, dict(n.attrs)) == (y.dtype, y.shape), n
    assert len({n.name for n in made.nodes}) == len(made.nodes)
    assert (made.inputs, made.outputs) == (g.inputs, g.outputs)
    arrays = loaded(seed)
    with np.errstate(all="ignore"):
        want, got = (interpret(canonicalise(lower_written(f)), arrays, {}) for f in (g, made))
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    assert narrowed(g, CHIP) == made
