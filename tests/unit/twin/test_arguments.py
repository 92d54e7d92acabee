"""Tests of the arguments of a kernel: numbers, odd arrays, and memory that it overwrites."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.dtypes import BY_NAME, numpy_dtype
from autofuse.implgraph.ir.fusion import Tensor
from autofuse.machines.twin.run.arguments import checked_inputs
from autofuse.machines.twin.run.overlap import overlaps_itself, share_memory
from autofuse.machines.twin.run.values import as_array

INF, NAN = float("inf"), float("nan")


def scalar(dtype: str) -> Tensor:
    return Tensor("s", BY_NAME[dtype], (), scalar=True)


def refused(tensor: Tensor, value: object) -> str:
    with pytest.raises(AutofuseError) as caught:
        as_array(tensor, value)
    (found,) = caught.value.diagnostics
    assert found.code == "AF5007"
    return found.message


# numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "value", "want"),
    [
        ("float32", 1, 1.0),
        ("float32", True, 1.0),
        ("float32", np.bool_(True), 1.0),
        ("float32", 0.1, np.float32(0.1)),
        ("float32", Fraction(1, 3), np.float32(1 / 3)),
        ("float32", Decimal("0.1"), np.float32(0.1)),
        ("float32", 2**53 + 1, np.float32(2**53)),
        ("float32", 10**38, np.float32(1e38)),
        ("float32", np.longdouble(0.5), 0.5),
        ("float32", 1e-60, 0.0),
        ("float32", INF, INF),
        ("float32", np.float16(-INF), -INF),
        ("float32", Decimal("Infinity"), INF),
        ("float16", 65519, 65504),
        ("bfloat16", 3.0, 3.0),
        ("float32", ml_dtypes.bfloat16(1.5), 1.5),
        ("int32", ml_dtypes.bfloat16(2), 2),
        ("int32", 3.0, 3),
        ("int32", Fraction(4, 2), 2),
        ("int64", 2**63 - 1, 2**63 - 1),
        ("int64", np.uint64(7), 7),
        ("uint64", 2**64 - 1, 2**64 - 1),
        ("uint8", np.int64(255), 255),
        ("bool", 1, True),
        ("bool", 0.0, False),
        ("bool", np.True_, True),
    ],
)
def test_a_number_is_that_of_the_dtype(dtype, value, want):
    found = as_array(scalar(dtype), value)
    assert found.shape == ()
    assert found.dtype == numpy_dtype(BY_NAME[dtype])
    assert found[()] == want


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_nan_is_a_float(dtype):
    assert np.isnan(as_array(scalar(dtype), NAN).astype(np.float32))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *(("int32", v) for v in (NAN, INF, -INF, np.float32(-INF), 1.5, 2**31, -(2**31) - 1)),
        *(("int32", v) for v in (Decimal("NaN"), Decimal("sNaN"), Fraction(1, 2), 10**400)),
        ("int32", ml_dtypes.bfloat16(NAN)),
        *(("int64", v) for v in (2**63, 2.0**63, np.uint64(2**63))),
        *(("uint8", v) for v in (-1, 256, -1.0)),
        *(("uint64", v) for v in (-1, 2**64)),
        *(("bool", v) for v in (2, -1, 0.5, NAN, INF)),
        *(("float16", v) for v in (65520, -1e9, np.float32(7e4))),
        *(("bfloat16", v) for v in (3.4e38, 10**39)),
        *(("float32", v) for v in (1e39, 10**400, -(10**400), Decimal("1e400"), Fraction(10**400))),
        ("float32", Decimal("sNaN")),
        pytest.param("int64", 10**5000, id="digits"),
    ],
)
def test_a_number_that_the_dtype_has_not_is_refused(dtype, value):
    message = refused(scalar(dtype), value)
    assert message.endswith(f"is not a value of {dtype}")
    assert len(message) < 100


@pytest.mark.parametrize(
    "value",
    [
        1 + 2j,
        1 + 0j,
        np.complex64(1),
        "2",
        np.str_("2"),
        b"2",
        None,
        object(),
        [2.0],
        np.datetime64("2026-01-01"),
        np.timedelta64(3, "s"),
        np.void(b"\0\0\0\0"),
    ],
    ids=lambda v: type(v).__name__,
)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_what_is_no_number_is_refused(dtype, value):
    assert "must be a NumPy array" in refused(scalar(dtype), value)


# arrays ---------------------------------------------------------------------------------------

BASE = {
    "schema": "autofuse.graph/1",
    "name": "odd",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 2]}],
    "nodes": [{"name": "n", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}],
    "outputs": ["y"],
}
X = np.array([[1, -2], [3, -4]], np.float32)


class Own(np.ndarray):
    """A subclass that adds nothing."""


@pytest.mark.parametrize(
    "value",
    [
        np.ma.array(X, mask=[[0, 1], [0, 0]]),
        np.ma.array(X),
        np.ma.masked,
        X.astype(">f4"),
        X.astype(np.float64),
        X.astype(complex),
        X.astype(object),
        X.astype(str),
        X.astype("m8[s]"),
        X.astype("M8[s]"),
        X.view("f4,f4").reshape(2, 1),
        X.view("V4"),
        X.tolist(),
        None,
    ],
    ids=str,
)
def test_an_array_of_something_else_is_refused(value):
    graph = api.read(BASE)
    with pytest.raises(AutofuseError) as caught:
        checked_inputs(graph, {"x": value}, {})
    assert {d.code for d in caught.value.diagnostics} == {"AF5007"}
    # Nothing is proposed that leaves something out.
    kind = value.dtype.kind if isinstance(value, np.ndarray) else ""
    assert any("astype" in d.hint for d in caught.value.diagnostics) == (
        kind == "f" and not isinstance(value, np.ma.MaskedArray)
    )


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("value", [X.view(np.matrix), X.view(Own), np.asfortranarray(X), X[::-1]])
def test_an_array_of_another_class_is_its_elements(value):
    arrays, _ = checked_inputs(api.read(BASE), {"x": value}, {})
    assert type(arrays["x"]) is np.ndarray
    assert arrays["x"].shape == (2, 2)
    assert np.array_equal(arrays["x"], np.asarray(value))


def test_all_that_does_not_fit_is_said_at_once():
    two = {**BASE, "inputs": [*BASE["inputs"], {"name": "z", "dtype": "bool", "shape": [2, 2]}]}
    two["nodes"] = [{"name": "n", "op": "Select", "inputs": ["z", "x", "x"], "outputs": ["y"]}]
    with pytest.raises(AutofuseError) as caught:
        checked_inputs(api.read(two), {"x": np.ma.array(X), "z": X}, {})
    assert len(caught.value.diagnostics) == 2


# memory ---------------------------------------------------------------------------------------


def strided(shape, strides, offset=0, length=600):
    """A view with strides in bytes."""
    base = np.zeros(length, np.uint8)
    return base, np.ndarray(shape, np.float32, base, offset, strides)


@pytest.mark.parametrize(
    ("shape", "strides", "want"),
    [
        ((5, 7), (28, 4), False),
        ((5, 7), (4, 20), False),
        ((5, 7), (4, 4), True),
        ((5, 7), (0, 4), True),
        ((1, 7), (0, 4), False),
        ((0, 7), (0, 4), False),
        ((5, 7), (64, 8), False),
        ((5, 7), (24, 4), True),
        # Rows between each other's elements: 8 i + 20 j is different for every pair.
        ((2, 5), (8, 20), False),
        ((6, 5), (8, 20), True),
        ((3, 3, 3), (4, 12, 36), False),
        ((3, 3, 3), (4, 12, 32), True),
        ((5,), (2,), True),
        ((5, 7), (-28, 4), False),
        ((5, 7), (-24, 4), True),
        ((), (), False),
    ],
)
def test_an_array_that_overlaps_itself(shape, strides, want):
    _, a = strided(shape, strides, 200)
    assert overlaps_itself(a) == want
    # As written down: no byte belongs to two elements.
    places = [
        200 + sum(i * s for i, s in zip(at, strides, strict=True)) + b
        for at in np.ndindex(shape)
        for b in range(4)
    ]
    assert (len(set(places)) < len(places)) == want


def test_arrays_that_are_too_hard_to_tell_apart_count_as_overlapping():
    base = np.zeros(1 << 23, np.uint8)
    strides = (1399, 1409, 1423, 1427, 1429, 1433, 1439)
    a = np.ndarray((2, 300, 301, 302, 303, 304, 305)[-len(strides) :], np.uint8, base, 0, strides)
    b = np.ndarray((300, 301, 302, 303, 304, 305, 306), np.uint8, base, 1, strides)
    with pytest.raises(np.exceptions.TooHardError):
        np.shares_memory(a, b, max_work=1)
    assert share_memory(a, b)


TWO = {
    "schema": "autofuse.graph/1",
    "name": "two",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": [5, 7]},
        {"name": "y", "dtype": "float32", "shape": [5, 7]},
        {"name": "z", "dtype": "float32", "shape": [5, 7]},
        {"name": "w", "dtype": "float32", "shape": [5, 7]},
    ],
    "nodes": [
        {"name": "a", "op": "Add", "inputs": ["x", "z"], "outputs": ["s"]},
        {"name": "b", "op": "Sub", "inputs": ["y", "w"], "outputs": ["d"]},
        {"name": "c", "op": "Mul", "inputs": ["z", "w"], "outputs": ["p"]},
    ],
    "outputs": [{"name": "s", "inout": "x"}, {"name": "d", "inout": "y"}, "p"],
}


def tensors(**given):
    base = np.arange(140, dtype=np.float32)
    apart = {n: base[35 * i : 35 * (i + 1)].reshape(5, 7) for i, n in enumerate("xyzw")}
    return apart | given


def rows(start, base=None):
    base = np.zeros(140, np.float32) if base is None else base
    return base[start : start + 35].reshape(5, 7)


def test_memory_that_may_be_shared():
    graph = api.read(TWO)
    one = rows(0)
    wide = np.zeros((5, 14), np.float32)
    for given in (
        tensors(),
        tensors(z=one, w=one),
        tensors(z=one, w=rows(7, one.base)),
        tensors(x=wide[:, ::2], y=wide[:, 1::2]),
        tensors(x=wide[:, :7], z=wide[:, 7:]),
        tensors(z=np.broadcast_to(np.float32(1), (5, 7))),
    ):
        arrays, _ = checked_inputs(graph, given, {})
        assert all(arrays[n] is a for n, a in given.items())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda v: {"x": v, "y": v}, "x is overwritten by the kernel, but its array shares"),
        (lambda v: {"x": v, "y": v[::-1]}, "with that of y"),
        (lambda v: {"x": v, "z": v}, "with that of z"),
        (lambda v: {"y": v, "z": v}, "with that of z"),
        (lambda v: {"x": rows(0, v.base), "y": rows(7, v.base)}, "with that of y"),
        (lambda v: {"x": rows(0, v.base), "w": rows(34, v.base)}, "with that of w"),
        (lambda v: {"y": v.base[:70].reshape(5, 14)[:, ::2], "w": v.base[2:72].reshape(5, 14)[:, ::2]}, "of w"),
        (lambda v: {"x": np.lib.stride_tricks.as_strided(v, (5, 7), (4, 4))}, "elements of its array"),
        (lambda v: {"y": np.lib.stride_tricks.as_strided(v, (5, 7), (0, 4))}, "elements of its array"),
    ],
)  # fmt: skip
def test_memory_that_is_overwritten_is_no_others(given, said):
    base = np.zeros(140, np.float32)
    with pytest.raises(AutofuseError) as caught:
        checked_inputs(api.read(TWO), tensors(**given(rows(0, base))), {})
    (found,) = caught.value.diagnostics
    assert found.code == "AF5007"
    assert said in found.message


def test_what_is_overwritten_is_an_array_that_can_be_written():
    graph = api.read(
        {
            **BASE,
            "inputs": [{"name": "x", "dtype": "float32", "shape": []}],
            "outputs": [{"name": "y", "inout": "x"}],
        }
    )
    frozen = np.zeros((), np.float32)
    frozen.flags.writeable = False
    for value, said in ((1.0, "not a number"), (np.float32(1), "not a number"), (frozen, "read-o")):
        with pytest.raises(AutofuseError, match=said):
            checked_inputs(graph, {"x": value}, {})
