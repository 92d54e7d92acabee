"""Activations are found in the primitives that they were opened into."""

from __future__ import annotations

import json
import math

import pytest

from autofuse.api import read
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.rewrites.recognise import recognise
from autofuse.implgraph.rewrites.short_results import short_results, steps_of
from autofuse.implgraph.simplify.canonicalise import canonicalise

ROOT_HALF, DENSITY, SCALE = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi), math.sqrt(2 / math.pi)


def graph(*lines: str, inputs: str = "x:float16", outputs: str = "y"):
    """A graph of ``name = Op a b``; ``>type`` is a Cast; all of 3 x 5."""
    nodes = []
    for line in lines:
        name, op, *operands = line.replace("= ", "").split()
        attrs = {"dtype": op[1:]} if op[0] == ">" else {}
        nodes.append(
            {
                "name": f"n_{name}",
                "op": "Cast" if attrs else op,
                "inputs": [o if o[0].isalpha() else {"const": float(o)} for o in operands],
                "outputs": [name],
                "attrs": attrs,
            }
        )
    data = [dict(zip(("name", "dtype"), i.split(":"), strict=True)) for i in inputs.split()]
    return read(
        json.dumps(
            {
                "schema": "autofuse.graph/1",
                "name": "k",
                "inputs": [{**d, "shape": [3, 5]} for d in data],
                "nodes": nodes,
                "outputs": outputs.split(),
            }
        )
    )


def ops(g) -> list[str]:
    return [n.op for n in recognise(g).nodes]


WIDE, NARROW = "a = >float32 x", "y = >float16 b"
ERF = (f"e = Mul a {ROOT_HALF}", "f = Erf e", "g = Add f 1")
TANH = (
    "p = Mul a a",
    "q = Mul p a",
    "r = Mul q 0.044715",
    "s = Add a r",
    f"t = Mul s {SCALE}",
    "u = Tanh t",
    "v = Add u 1",
)


@pytest.mark.parametrize(
    ("op", "lines"),
    [
        ("Gelu", (*ERF, "h = Mul a 0.5", "b = Mul h g")),
        ("Gelu", (*ERF, "h = Mul g a", "b = Mul 0.5 h")),
        (
            "Gelu",
            (
                f"e = Div a {math.sqrt(2)}",
                "f = Erf e",
                "g = Add 1 f",
                "h = Mul 0.5 g",
                "b = Mul a h",
            ),
        ),
        ("GeluTanh", (*TANH, "h = Mul a 0.5", "b = Mul h v")),
        ("GeluTanh", ("q = Pow a 3", *TANH[2:], "h = Mul a v", "b = Mul h 0.5")),
        (
            "GeluSlope",
            (
                *ERF,
                "h = Mul g 0.5",
                "i = Mul a a",
                "j = Mul i -0.5",
                "k = Exp j",
                f"l = Mul k {DENSITY}",
                "m = Mul a l",
                "b = Add h m",
            ),
        ),
    ],
)
def test_what_needs_16_bits_only(op, lines):
    assert ops(graph(WIDE, *lines, NARROW)) == ["Cast", op, "Cast"]
    # In float32 there is nothing to gain.
    assert op not in ops(graph(*lines, inputs="a:float32", outputs="b"))
    # Nor is a sum, which may cancel, as exact as its terms.
    assert op not in ops(graph(WIDE, *lines, "c = Add a b", "y = >float16 c"))
    # As ops of 16 bits, which the registry computes in float32.
    assert ops(graph(*lines, inputs="a:float16", outputs="b")) == [op]


def test_steps_in_float32_of_a_chain_of_16_bits():
    """A number that 16 bits do not hold makes such a step."""
    step = ("a = >float32 x", f"b = Mul a {ROOT_HALF}")
    rest = ("f = Erf e", "g = Add f 1", "h = Mul x 0.5", "y = Mul h g")
    assert ops(graph(*step, "e = >float16 b", *rest)) == ["Gelu"]
    # Through another type of 16 bits: the argument is not the one.
    assert "Gelu" not in ops(graph(*step, "c = >bfloat16 b", "e = >float16 c", *rest))
    softplus = (
        "b = Exp a",
        "c = Log1p b",
        "d = Greater a 20",
        "e = Select d a c",
        "f = >float16 e",
    )
    assert ops(graph(step[0], *softplus, "g = Tanh f", "y = Mul x g")) == ["Mish"]


SOFTPLUS = ("e = Exp x", "f = Log1p e", "g = Greater x 20", "s = Select g x f")
LOG1P = ("e = Abs x", "f = Neg e", "g = Exp f", "h = Log1p g")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("op", "lines"),
    [
        ("Softplus", (*SOFTPLUS[:3], "y = Select g x f")),
        ("Softplus", (*LOG1P, "m = Maximum 0 x", "y = Add m h")),
        ("LogSigmoid", (*LOG1P, "m = Minimum 0 x", "y = Sub m h")),
        ("Mish", (*SOFTPLUS, "t = Tanh s", "y = Mul x t")),
        ("Mish", ("s = Softplus x", "t = Tanh s", "y = Mul t x")),
        ("TanhSoftplus", (*SOFTPLUS, "y = Tanh s")),
    ],
)
def test_what_is_shorter_in_float32_as_well(op, lines, dtype):
    assert ops(graph(*lines, inputs=f"x:{dtype}")) == [op]


def test_numbers_have_to_be_those_of_the_op():
    lines = (*ERF, "h = Mul a 0.5", "b = Mul h g")
    near = [line.replace(str(ROOT_HALF), "0.70710676") for line in lines]
    assert "Gelu" in ops(graph(WIDE, *near, NARROW))
    for wrong in ("0.7072", "0.70710649"):
        off = [line.replace(str(ROOT_HALF), wrong) for line in lines]
        assert "Gelu" not in ops(graph(WIDE, *off, NARROW))


def test_the_argument_is_one_tensor():
    lines = (*ERF, "h = Mul z 0.5", "b = Mul h g")
    assert "Gelu" not in ops(
        graph(WIDE, "z = >float32 w", *lines, NARROW, inputs="x:float16 w:float16")
    )


def test_what_is_dear_is_not_computed_twice():
    lines = (WIDE, *ERF, "h = Mul a 0.5", "b = Mul h g", NARROW)
    assert "Gelu" not in ops(graph(*lines, outputs="y f"))
    # The scaled argument is not dear; others keep it.
    assert ops(graph(*lines, outputs="y e")) == ["Cast", "Mul", "Gelu", "Cast"]


def test_the_gradient_of_mish_keeps_the_factor():
    found = ops(graph(*SOFTPLUS, "t = Tanh s", "u = Mul x t", "v = Mul t t", "y = Sub u v"))
    assert found == ["TanhSoftplus", "Mul", "Mul", "Sub"]


def test_two_forms_share_what_they_are_made_of():
    both = (
        WIDE,
        *ERF,
        "h = Mul a 0.5",
        "b = Mul h g",
        NARROW,
        "c = Mul g 0.5",
        "i = Mul a a",
        "j = Mul i -0.5",
        "k = Exp j",
        f"l = Mul k {DENSITY}",
        "m = Mul a l",
        "n = Add c m",
        "z = >float16 n",
    )
    assert ops(graph(*both, outputs="y z")) == ["Cast", "Gelu", "Cast", "GeluSlope", "Cast"]
    # Where the second is needed in float32, Erf is computed, and the first is made of it.
    assert "Gelu" not in ops(graph(*both[:-1], outputs="y n"))


def test_one_result_of_a_cast_is_short():
    lines = ("a = >float32 x", "b = Gelu a", "c = >float32 w", "d = Exp2 c", "e = Mul b d")
    g = graph(*lines, "y = >float16 e", inputs="x:float16 w:float16")
    hint = canonicalise(lower(g))
    assert short_results(steps_of(hint.nodes)) == {"n_b"}
    g = graph(
        *lines, "y = >float16 b", "z = >float16 d", inputs="x:float16 w:float16", outputs="y z"
    )
    assert short_results(steps_of(canonicalise(lower(g)).nodes)) == {"n_b", "n_d"}


@pytest.mark.parametrize(
    "lines",
    [
        ("c = Add a b", "y = >float16 c"),
        ("c = Mul b b", "y = >float16 c"),
        ("c = Exp b", "y = >float16 c"),
        ("y = Mul a b",),
        ("y = >int32 b",),
    ],
)
def test_what_enlarges_an_error_keeps_float32(lines):
    g = graph("a = >float32 x", "b = Gelu a", *lines)
    assert not short_results(steps_of(canonicalise(lower(g)).nodes))
