"""Sums of long rows lose little by rounding: errors are measured like those of a card, and are small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import draws
import numpy as np
import numpy.typing as npt
import pytest
from triton_checks import TARGET
from triton_graphs import graph

from autofuse import api
from autofuse.codegen.backends.triton import blocks
from autofuse.codegen.backends.triton.kernels import Blocks
from autofuse.implgraph.ops.rows.reductions import running_sum
from autofuse.machines.gpu.kernel import TritonKernel

pytestmark = [
    pytest.mark.sampled(2),
    pytest.mark.triton,
]

Array = npt.NDArray[Any]
EPS = float(np.finfo(np.float32).eps)
#: Of an error; sums one after another had 2.5 and more.
BOUND = 1.5
WAYS = [(False, False), (False, True), (True, False), (True, True)]
NAMES = ["sums", "reversed", "exclusive", "exclusive, reversed"]


def summing(rows: int, cols: int, exclusive: bool, reverse: bool) -> dict[str, Any]:
    attrs = {"axis": 1, "exclusive": exclusive, "reverse": reverse}
    return graph("sums", [("float32", [rows, cols])], [("CumSum", ["x0"], attrs)], ["t0"])


def called(made: dict[str, Any], x: Array) -> Array:
    built = api.build(made, target=TARGET)
    found = TritonKernel(built.files, built.graph)(x)
    assert isinstance(found, np.ndarray)
    return found


def error(given: Array, right: Array) -> float:
    """The largest one in units of ``eps * (|right| + rms)``, where 1 is about two roundings."""
    assert given.shape == right.shape
    scale = np.sqrt(np.mean(right**2))
    return float(np.max(np.abs(given - right) / (EPS * (np.abs(right) + scale))))


#: Form -> what is chosen, columns, and words of the text.
FORMS: dict[str, tuple[dict[str, Callable[..., Any]], int, str]] = {
    "as chosen": ({}, 32_768, "COLS=4096"),
    "whole rows": ({"rows_in_registers": lambda *given: Blocks(1, 32_768)}, 32_768, "COLS=32768"),
    "whole rows with a tail": (
        {"rows_in_registers": lambda *given: Blocks(2, 16_384)},
        8_209,
        "ROWS=2, COLS=16384",
    ),
    "many blocks": (
        {"rows_in_registers": lambda *given: None, "looped": lambda *given: Blocks(4, 16)},
        9_001,
        "ROWS=4, COLS=16",
    ),
}


@pytest.mark.parametrize(("exclusive", "reverse"), WAYS, ids=NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_running_sums(
    form: str, exclusive: bool, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, cols, words = FORMS[form]
    for name, rule in rules.items():
        assert hasattr(blocks, name)
        monkeypatch.setattr(blocks, name, rule)
    made = summing(3, cols, exclusive, reverse)
    assert words in api.build(made, target=TARGET).files["sums_triton.py"]
    x = draws.rng().random((3, cols), np.float32)
    right = running_sum(x.astype(np.float64), 1, exclusive, reverse)
    assert error(called(made, x), right) < BOUND


@pytest.mark.parametrize("cols", [8_209, 40_000])
def test_what_is_infinite_stays_so(cols: int) -> None:
    """Also where an account of what is lost goes along, in which it is NaN."""
    x = np.ones((2, cols), np.float32)
    x[0, 5], x[1, 7], x[1, cols - 9] = np.inf, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        right = running_sum(x.astype(np.float64), 1, False, False)
    np.testing.assert_array_equal(called(summing(2, cols, False, False), x), right)
