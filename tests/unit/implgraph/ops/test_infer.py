"""Dtypes of constants beside tensors."""

from __future__ import annotations

import math

import pytest

from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Constant, Tensor
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.infer import operand_dtypes

INTS = Tensor("x", BY_NAME["int32"], (const(3),))


@pytest.mark.parametrize("value", [0.5, math.inf, -math.inf, math.nan])
def test_a_float_beside_integers_is_an_error(value: float) -> None:
    with pytest.raises(OpError, match="does not fit int32") as caught:
        operand_dtypes([INTS, Constant(value)])
    assert caught.value.code == "AF1203"


def test_a_whole_float_takes_the_integer_dtype() -> None:
    assert [d.name for d in operand_dtypes([INTS, Constant(2.0)])] == ["int32", "int32"]


@pytest.mark.parametrize(("value", "name"), [(1, "int32"), (1.5, "float32"), (True, "bool")])
def test_a_constant_alone(value: float, name: str) -> None:
    assert operand_dtypes([Constant(value)])[0].name == name
