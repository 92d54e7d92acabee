"""Comparing an output with its reference."""

import numpy as np

from autofuse.implgraph.ir.dtypes import dtype
from autofuse.twin.oracle.compare import Comparison, compare, unwritten
from autofuse.twin.oracle.oracle import Reference

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
    want = np.array([top, np.inf, 1.0], np.float32)
    got = np.array([np.inf, top, np.inf], np.float32)
    tolerance = np.array([top * 2.0**-22, 0.0, 0.1])
    c = compare("y", got, Reference(want, tolerance), F32)
    assert (c.wrong, c.first) == (1, (2,))


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
