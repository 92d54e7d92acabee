"""Modules of real networks through torch.compile, forward and backward, beside eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_modules import CASES, Case

import autofuse.torch

CLOSE = {"rtol": 2e-5, "atol": 2e-5}
OPTIONS = {"opt": "-O0", "fallback": "error"}
#: Of these also with no and with one row.
SMALL = ("mlp_gelu", "layer_norm", "group_norm", "attention_mask", "cross_entropy")


def _step(
    module: torch.nn.Module, call: Callable[..., Any], inputs: list[torch.Tensor]
) -> list[torch.Tensor]:
    """The result, and the gradients of inputs and parameters."""
    for x in inputs:
        x.requires_grad_(x.is_floating_point())
        x.grad = None
    module.zero_grad()
    out = call(*inputs)
    torch.manual_seed(7)
    out.backward(torch.randn_like(out))
    grads = [x.grad for x in (*inputs, *module.parameters()) if x.requires_grad]
    return [out.detach(), *(g for g in grads if g is not None)]


def _same(
    module: torch.nn.Module, compiled: Callable[..., Any], inputs: list[torch.Tensor]
) -> None:
    have, want = _step(module, compiled, inputs), _step(module, module, inputs)
    assert len(have) == len(want)
    for a, b in zip(have, want, strict=True):
        assert a.stride() == b.stride() or a.numel() == 0
        torch.testing.assert_close(a, b, **CLOSE)


def _check_report(case: Case, *reasons: str) -> None:
    """Kernels took the module, but for ops that the case names, and reasons with one of these words in it."""
    graphs = autofuse.torch.report().graphs
    assert any(g.fused for g in graphs)
    excused = ("min_ops", *reasons)
    left = {op for g in graphs for op, why in g.not_fused if not any(w in why for w in excused)}
    assert left <= case.eager
    assert not [why for g in graphs for why in g.at_run_time]


@pytest.mark.twin
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_static(case: Case) -> None:
    module = case.make()
    compiled = torch.compile(module, backend="autofuse", dynamic=False, options=OPTIONS)
    _same(module, compiled, list(case.inputs(5)))
    _check_report(case)


@pytest.mark.twin
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_dynamic(case: Case) -> None:
    """One graph serves all batch sizes but 0 and 1, which PyTorch itself compiles apart."""
    module = case.make()
    compiled = torch.compile(module, backend="autofuse", options=OPTIONS)
    inputs = list(case.inputs(19))
    for x in inputs:
        if x.shape[0] == 19:
            torch._dynamo.mark_dynamic(x, 0)
    for given in (inputs, case.inputs(3), case.inputs(17)):
        _same(module, compiled, list(given))
    graphs = autofuse.torch.report().graphs
    assert [g.name for g in graphs] == ["forward 1", "backward 1"]
    assert any(k.symbols for g in graphs for k in g.fused)
    _check_report(case)


@pytest.mark.twin
@pytest.mark.parametrize("case", [c for c in CASES if c.name in SMALL], ids=lambda c: c.name)
def test_no_and_one_element(case: Case) -> None:
    """All dimensions are symbols, and some calls have no rows or one."""
    module = case.make()
    compiled = torch.compile(module, backend="autofuse", dynamic=True, options=OPTIONS)
    for n in (0, 19, 1):
        _same(module, compiled, list(case.inputs(n)))
    # PyTorch divides numbers of elements that it does not know in float64.
    _check_report(case, "float64")
