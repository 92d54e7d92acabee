"""An internal error of autofuse: PyTorch computes that part, with one warning; AUTOFUSE_STRICT=1 raises it."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from typing import Any

import pytest
import torch

from autofuse import failures
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch import selection
from autofuse.clients.torch.ops.row import ROWS

pytestmark = pytest.mark.twin


def broken(*_: Any) -> Any:
    raise AssertionError("no such thing")


@pytest.fixture(params=["a row", "a region", "the library"])
def _fault(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something of autofuse raises what it should not."""
    monkeypatch.setattr(failures, "_CUT_AROUND", itertools.count())
    if request.param == "a row":
        row = dataclasses.replace(ROWS["aten.tanh.default"], convert=broken)
        monkeypatch.setitem(ROWS, "aten.tanh.default", row)
    elif request.param == "a region":
        monkeypatch.setattr(selection, "_kernel_of", broken)
    else:
        error = failures.internal_error(AssertionError("no such thing"))

        def failing(*_: Any) -> Any:
            raise error

        monkeypatch.setattr(selection, "built_for", failing)


def function(x: torch.Tensor) -> Any:
    return (torch.tanh(x) * 2, torch.tanh(x + 1))


@pytest.mark.usefixtures("_fault")
def test_it_is_cut_around_with_one_warning() -> None:
    x = torch.randn(5, 3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for k in range(2):
            torch._dynamo.reset()
            f = torch.compile(
                function, backend="autofuse", options={"target": "ascend910b1", "min_ops": 1}
            )
            for a, b in zip(f(x + k), function(x + k), strict=True):
                torch.testing.assert_close(a, b)
    found = [str(w.message) for w in seen if "autofuse failed" in str(w.message)]
    assert len(found) == 1
    assert "AssertionError: no such thing; reproducer: " in found[0]


@pytest.mark.usefixtures("_fault")
def test_strict_raises_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFUSE_STRICT", "1")
    f = torch.compile(function, backend="autofuse", options={"target": "ascend910b1", "min_ops": 1})
    with pytest.raises(Exception, match="AF9001: internal error: AssertionError") as caught:
        f(torch.randn(5, 3))
    error: BaseException | None = caught.value
    while error is not None and not isinstance(error, AutofuseError):
        error = getattr(error, "inner_exception", None) or error.__cause__
    assert error is None or error.diagnostics[0].code == "AF9001"
