"""Routes of Cast over the conversions that a chip has."""

import itertools

import pytest

from autofuse.implgraph.ops.cast_routes import cast_route
from autofuse.targets import load_target

A2, P310 = (load_target(n).arch for n in ("ascend910b1", "ascend310p"))
REAL = ("float32", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool")


@pytest.mark.parametrize(
    ("src", "dst", "route"),
    [
        ("float32", "float16", ("float16",)),
        ("float16", "bfloat16", ("float32", "bfloat16")),
        ("int8", "float32", ("float16", "float32")),
        ("float32", "int8", ("float16", "int8")),
        ("bfloat16", "int32", ("int32",)),
        ("int64", "int16", ("float32", "int16")),
        ("float32", "float32", ()),
    ],
)
def test_route_on_910b(src, dst, route):
    assert cast_route(A2, src, dst) == route


def test_every_pair_has_a_route_on_910b():
    for src, dst in itertools.product(REAL, REAL):
        assert cast_route(A2, src, dst) is not None, (src, dst)


@pytest.mark.parametrize(("src", "dst"), [("bfloat16", "float32"), ("int64", "int32")])
def test_310p_has_no_bfloat16_and_no_64_bits(src, dst):
    assert cast_route(P310, src, dst) is None


def test_steps_of_a_route_are_single_calls():
    for src, dst in itertools.product(REAL, REAL):
        route = cast_route(A2, src, dst) or ()
        for a, b in itertools.pairwise((src, *route)):
            assert cast_route(A2, a, b) == (b,)
