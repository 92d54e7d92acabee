"""The constants of calls are compared with those of their nodes: floats by their bits, integers by theirs."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from register_functions import Made, made

from autofuse.codegen.ir.calls import Call, Number
from autofuse.codegen.ir.kernel_ir import For, Stmt
from autofuse.codegen.proofs.model import Kernel
from autofuse.codegen.verification.ranges import calls_match_their_nodes

SPECIAL = [0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, math.inf, -math.inf, math.nan, 1 / 3, 0.5]


def largest_of(dtype: str) -> Made:
    """A kernel for the larger of an element and a constant, which is 3 until a test changes it."""
    document = {
        "schema": "autofuse.graph/1",
        "name": "g",
        "inputs": [{"name": "x", "dtype": dtype, "shape": [4096]}],
        "nodes": [{"name": "n", "op": "Maximum", "inputs": ["x", {"const": 3}], "outputs": ["y"]}],
        "outputs": ["y"],
    }
    return made(document, "ascend910b1")


@pytest.fixture(scope="module")
def floats() -> Made:
    return largest_of("float32")


@pytest.fixture(scope="module")
def integers() -> Made:
    return largest_of("int32")


def findings(m: Made, wanted: float, stated: float) -> list[str]:
    """What the check says where the node has one constant, and its call the other one."""
    fn, impl, built = m
    changed = 0

    def of(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        nonlocal changed
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, For):
                s = replace(s, body=of(s.body))
            elif isinstance(s, Call) and any(isinstance(a, Number) for a in s.args):
                changed += 1
                s = replace(
                    s,
                    args=tuple(
                        replace(a, value=stated) if isinstance(a, Number) else a for a in s.args
                    ),
                )
            out.append(s)
        return tuple(out)

    body = of(fn.body)
    nodes = tuple(
        replace(n, attrs={**n.attrs, "value": wanted}) if n.op == "Scalar" else n
        for n in impl.nodes
    )
    assert changed == sum(n.op == "Scalar" for n in nodes) == 1
    kernel = Kernel(replace(fn, body=body), replace(impl, nodes=nodes), built.graph, built.target)
    return [f.message for f in calls_match_their_nodes(kernel)]


def same_bits(a: float, b: float) -> bool:
    """Two numbers have the same bits as float64, or both are NaN."""
    return struct.pack("<d", a) == struct.pack("<d", b) or (math.isnan(a) and math.isnan(b))


@pytest.mark.parametrize("wanted", SPECIAL)
def test_a_float_is_another_one_if_a_bit_is(floats: Made, wanted: float) -> None:
    """0.0 and -0.0 are two constants, for 1 / x and Maximum tell them apart; NaN is one."""
    same = [x for x in SPECIAL if findings(floats, wanted, x) == []]
    assert list(map(repr, same)) == [repr(wanted)]


@given(wanted=st.floats(), other=st.floats(), how=st.integers(0, 4))
def test_any_two_floats_are_compared_by_their_bits(
    floats: Made, wanted: float, other: float, how: int
) -> None:
    """Neighbours, opposites and what rounds to the same float32 are other constants."""
    near = math.nextafter(wanted, math.inf)
    stated = (wanted, -wanted, near, other, abs(wanted))[how]
    found = findings(floats, wanted, stated)
    assert (found == []) == same_bits(wanted, stated)
    if found:
        assert any("gets another constant than Maxs" in text for text in found)


@given(
    wanted=st.integers(-(1 << 31), (1 << 31) - 1),
    off=st.sampled_from([0, 1, -1, 1 << 8, 1 << 16, 1 << 30, 1 << 31]),
    wraps=st.integers(-2, 2),
)
def test_integers_are_the_same_constant_if_they_wrap_to_the_same_bits(
    integers: Made, wanted: int, off: int, wraps: int
) -> None:
    """An int32 may be stated as any integer of the same 32 low bits, and as no other one."""
    stated = wanted + off + (wraps << 32)
    assert (findings(integers, wanted, stated) == []) == (off == 0)
