"""NaN, infinities, zeros and the ends of the ranges, as eager but for what is known; a part of it at each run."""

import random

import edge_values
import pytest

pytestmark = [pytest.mark.twin, pytest.mark.slow]


@pytest.mark.parametrize("group", ["unary", "binary", "rows"])
def test_they_are_as_in_eager(group: str) -> None:
    dtype = random.choice(edge_values.TYPES)
    names = list(edge_values.torch_ops(group))
    chosen = random.sample(names, 18) if group != "rows" else names
    print(dtype, chosen)  # noqa: T201 - for a failure
    found = edge_values.torch_differences(group, dtype, chosen)
    unknown = [(n, text) for n, text in found if n not in edge_values.KNOWN]
    assert unknown == []


@pytest.mark.parametrize("group", ["unary", "binary", "rows"])
def test_integers_are_as_in_eager(group: str) -> None:
    dtype = random.choice(edge_values.INTEGERS)
    print(dtype)  # noqa: T201 - for a failure
    assert list(edge_values.torch_differences(group, dtype)) == []


@pytest.mark.parametrize("dtype", [t for t in edge_values.INTEGERS if t not in ("bool", "uint8")])
def test_counts_of_shifts_may_be_negative(dtype: str) -> None:
    """As counts beyond the width: 0, or -1 of a negative number to the right."""
    assert list(edge_values.torch_differences("unary", dtype, ["<< -1", ">> -1"])) == []
    names = ["bitwise_left_shift", "bitwise_right_shift"]
    assert list(edge_values.torch_differences("binary", dtype, names)) == []


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("sign", "unary"),
        ("sgn", "unary"),
        ("softsign", "unary"),
        ("hardswish", "unary"),
        ("pow 0.5", "unary"),
    ],
)
@pytest.mark.parametrize("dtype", edge_values.TYPES)
def test_some_at_every_run(name: str, group: str, dtype: str) -> None:
    assert list(edge_values.torch_differences(group, dtype, [name])) == []
