"""Which Casts take a rounding mode: from a float to an integer or to itself, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Tensor
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup

FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
ALL = (*FLOATS, *INTEGERS, "bool")
MODES = ("RINT", "FLOOR", "CEIL", "ROUND", "TRUNC")


def cast(have: str, to: str, mode: str) -> Any:
    x = Tensor("x", BY_NAME[have], (const(4),))
    return infer_node(lookup("Cast"), [x], {"dtype": to, "round": mode})[0]


@pytest.mark.parametrize("mode", MODES)
def test_a_float_to_an_integer_or_to_itself_takes_a_mode(mode: str) -> None:
    """All pairs of dtypes are tried: those that take the mode have the target's dtype, others are AF1205."""
    taken = []
    for have in ALL:
        for to in ALL:
            try:
                assert cast(have, to, mode).name == to
            except OpError as e:  # noqa: PERF203
                assert e.code == "AF1205", (have, to)  # noqa: PT017
                assert f"not {have} to {to}" in str(e)  # noqa: PT017
            else:
                taken.append((have, to))
    assert taken == [(f, to) for f in FLOATS for to in ALL if to == f or to in INTEGERS]


@pytest.mark.parametrize("mode", ["rint", "NEAREST", "NONE", "ODD"])
def test_other_modes_are_refused(mode: str) -> None:
    """A mode that there is not is AF1205 also for dtypes that take one."""
    with pytest.raises(OpError, match=f"unknown rounding mode '{mode}'") as caught:
        cast("float32", "int32", mode)
    assert caught.value.code == "AF1205"


@pytest.mark.parametrize(
    ("have", "to"),
    [
        ("float32", "float16"),
        ("float16", "float32"),
        ("float16", "bfloat16"),
        ("bfloat16", "float16"),
        ("int32", "float32"),
        ("int32", "int32"),
        ("float32", "bool"),
    ],
)
def test_a_file_with_such_a_cast_is_refused_at_its_node(have: str, to: str) -> None:
    """Reading finds the fault, before anything is built."""
    attrs = {"dtype": to, "round": "TRUNC"}
    document = {
        "schema": "autofuse.graph/1",
        "name": "g",
        "inputs": [{"name": "x", "dtype": have, "shape": [64]}],
        "nodes": [{"name": "n", "op": "Cast", "inputs": ["x"], "outputs": ["y"], "attrs": attrs}],
        "outputs": ["y"],
    }
    with pytest.raises(AutofuseError) as caught:
        api.read(document)
    (d,) = caught.value.diagnostics
    assert (d.code, d.where.pointer.split("/")[1:3]) == ("AF1205", ["nodes", "0"])
