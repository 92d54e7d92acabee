"""Comparing an output with its reference."""

import numpy as np
import pytest

from autofuse import api
from autofuse.implgraph.ir.dtypes import dtype, numpy_dtype
from autofuse.machines.twin.oracle.compare import Comparison, compare, unwritten
from autofuse.machines.twin.oracle.oracle import Reference, evaluate, largest

F32 = dtype("float32")


def test_equal_arrays_agree():
    x = np.array([1, np.nan, np.inf, -0.0], np.float32)
    y = np.array([1, np.nan, np.inf, 0.0], np.float32)
    assert compare("y", x, Reference(y, None), F32).ok


def test_the_first_wrong_element_is_named():
    want = np.zeros((3, 4), np.float32)
    got = want.copy()
    got[1, 2] = 0.5
    got[2, 0] = 9
    c = compare("y", got, Reference(want, np.full(want.shape, 0.25)), F32)
    assert (c.wrong, c.first, c.got, c.want, c.max_abs) == (2, (1, 2), "0.5", "0.0", 9.0)
    assert Comparison.from_json(c.to_json()) == c


def test_within_the_tolerance_is_fine_and_measured():
    want = np.ones(4, np.float32)
    got = want + np.float32(2.0**-23)
    c = compare("y", got, Reference(want, np.full(4, 1e-6)), F32)
    assert c.ok
    assert 0.5 <= c.max_ulp <= 1.0


def test_nan_against_a_number_is_wrong_unless_ill_conditioned():
    want = np.array([1, np.nan], np.float32)
    got = np.array([np.nan, 1], np.float32)
    assert compare("y", got, Reference(want, np.full(2, 1e9)), F32).wrong == 2
    assert compare("y", got, Reference(want, np.full(2, np.inf), 2), F32).ok


def test_an_overflow_may_come_a_little_early_or_late():
    top = np.finfo(np.float32).max
    want = np.array([top, np.inf, 1.0, np.inf], np.float32)
    got = np.array([np.inf, top, np.inf, top], np.float32)
    tolerance = np.array([top * 2.0**-22, top * 2.0**-23, 0.1, 0.0])
    c = compare("y", got, Reference(want, tolerance), F32)
    assert (c.wrong, c.first) == (2, (2,))


#: Digits and the largest finite number, as the formats define them.
FORMATS = {
    "float32": (24, (2 - 2.0**-23) * 2.0**127),
    "float16": (11, 65504.0),
    "bfloat16": (8, (2 - 2.0**-7) * 2.0**127),
}


def found_wrong(name, got, want, tolerance):
    """Which elements are found wrong one by one, with the sign and the other one."""
    kind = numpy_dtype(dtype(name))
    wrong = []
    for k in range(len(got)):
        both = []
        for sign in (1, -1):
            g, w = (np.array([sign * x[k]]).astype(kind) for x in (got, want))
            c = compare("y", g, Reference(w, np.array([tolerance[k]])), dtype(name))
            both.append(c.wrong)
        assert both[0] == both[1]
        wrong.append(bool(both[0]))
    return wrong


@pytest.mark.parametrize("name", FORMATS)
def test_an_infinity_is_wrong_where_the_result_does_not_reach_the_end(name):
    """The exact result and its tolerance must reach the largest number together; parts of the range are far from it."""
    digits, top = FORMATS[name]
    unit = top * 2.0 ** (1 - digits)
    shares = np.array([0.01, 0.25, 0.5, 0.5, 0.75, 0.9, 0.9, 0.96, 0.96])
    gaps = np.array([0.0, 0.01, 0.0, 0.4, 0.2, 0.0, 0.05, 0.0, 0.02])
    infinite = np.full(shares.size, np.inf)
    assert found_wrong(name, infinite, shares * top, gaps * top) == [True] * shares.size
    near = np.array([top, top - 8 * unit, top - 8 * unit, 0.5 * top, 0.5 * top])
    # Of half the range, the tolerance just reaches the end, or lacks a little.
    enough = np.array([unit, 9 * unit, 2 * unit, 0.51 * top, 0.49 * top])
    assert found_wrong(name, infinite[:5], near, enough) == [False, False, True, False, True]


@pytest.mark.parametrize("name", FORMATS)
def test_a_number_is_wrong_in_place_of_an_infinity_unless_it_is_next_to_it(name):
    """However large the tolerance of the infinity is, half of the range is not close to its end."""
    digits, top = FORMATS[name]
    unit = top * 2.0 ** (1 - digits)
    got = np.array([0.0, 0.01, 0.25, 0.5, 0.51, 0.75, 0.87]) * top
    for tolerance in (unit, 0.4 * top, top):
        given = np.full(got.size, tolerance)
        assert found_wrong(name, got, np.full(got.size, np.inf), given) == [True] * got.size
    assert found_wrong(name, [top], [np.inf], [unit]) == [False]
    assert found_wrong(name, [top], [np.inf], [0.0]) == [True]
    # Of the other sign, or NaN.
    assert found_wrong(name, [-top, -np.inf, np.nan], [np.inf] * 3, [unit] * 3) == [True] * 3


@pytest.mark.parametrize("name", FORMATS)
def test_an_infinity_is_wrong_where_the_result_is_exact(name):
    """Without a tolerance the largest number and an infinity differ."""
    kind, top = numpy_dtype(dtype(name)), FORMATS[name][1]
    want = np.array([top, -top, np.inf, -np.inf]).astype(kind)
    got = np.array([np.inf, -np.inf, top, -top]).astype(kind)
    assert compare("y", got, Reference(want, None), dtype(name)).wrong == 4


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_number_that_saturates_is_not_an_overflow(name):
    to = numpy_dtype(dtype(name))
    top = largest(dtype(name))
    node = {"name": "n", "op": "Cast", "inputs": ["x"], "outputs": ["y"], "attrs": {"dtype": name}}
    inputs = [{"name": "x", "dtype": "float32", "shape": [4]}]
    doc = {"schema": "autofuse.graph/1", "name": "c", "inputs": inputs, "nodes": [node]}
    graph = api.read({**doc, "outputs": ["y"]})
    x = np.array([np.inf, -np.inf, np.nan, 3e38 if name == "float16" else 3.4028235e38], np.float32)
    reference = evaluate(graph, {"x": x}, {})["y"]
    held = np.array([top, -top, 0, top]).astype(to)
    assert compare("y", reference.value, reference, dtype(name)).ok
    assert compare("y", held, reference, dtype(name)).wrong == 4


def test_a_bool_is_zero_or_one():
    want = np.array([True, True])
    got = np.array([1, 255], np.uint8).view(np.bool_)
    assert compare("y", got, Reference(want, None), dtype("bool")).wrong == 1


def test_large_integers_are_compared_exactly():
    want = np.array([2**62], np.int64)
    assert compare("y", want + 1, Reference(want, None), dtype("int64")).wrong == 1


def test_many_ill_conditioned_elements_are_inconclusive():
    assert Comparison("y", 100, ill_conditioned=17).inconclusive
    assert not Comparison("y", 100, ill_conditioned=16).inconclusive
    assert not Comparison("y", 10000, ill_conditioned=200).inconclusive


def test_unwritten_elements_show_the_pattern():
    a = np.full(12, 0x7F, np.uint8).view(np.float32)
    a[1] = 1
    assert unwritten(a, 0x7F).tolist() == [True, False, True]
