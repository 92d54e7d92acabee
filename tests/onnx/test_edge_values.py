"""NaN, infinities, zeros and the ends of the ranges, as the standard has them."""

import random

import pytest
from extras import required

pytestmark = [required("onnx"), pytest.mark.twin, pytest.mark.slow]

import edge_values


def test_they_are_as_in_the_reference() -> None:
    unknown = [
        (n, text) for n, text in edge_values.onnx_differences() if n not in edge_values.KNOWN
    ]
    assert unknown == []


def test_integers_are_as_in_the_reference() -> None:
    dtype = random.choice(edge_values.INTEGERS[:-1])
    print(dtype)  # noqa: T201 - for a failure
    assert list(edge_values.onnx_integer_differences(dtype)) == []
