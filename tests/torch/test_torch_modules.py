"""Modules of real networks through torch.compile, forward and backward, beside eager."""

from __future__ import annotations

import pytest
import torch
from torch_modules import CASES, Case, check_report, same

import autofuse.clients.torch

pytestmark = pytest.mark.sampled(2)

OPTIONS = {"target": "ascend910b1", "opt": "-O0", "fallback": "error"}
#: Of these also with no and with one row.
SMALL = ("mlp_gelu", "layer_norm", "group_norm", "attention_mask", "cross_entropy")


@pytest.mark.twin
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_static(case: Case) -> None:
    module = case.make()
    compiled = torch.compile(module, backend="autofuse", dynamic=False, options=OPTIONS)
    same(module, compiled, list(case.inputs(5)))
    check_report(case)


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
        same(module, compiled, list(given))
    graphs = autofuse.clients.torch.report().graphs
    assert [g.name for g in graphs] == ["forward 1", "backward 1"]
    symbols = [s for g in graphs for k in g.fused for s in k.symbols]
    assert symbols
    assert not any(s.startswith("-") for s in symbols)  # a minus is for numbers below zero
    check_report(case)


@pytest.mark.twin
@pytest.mark.parametrize("case", [c for c in CASES if c.name in SMALL], ids=lambda c: c.name)
def test_no_and_one_element(case: Case) -> None:
    """All dimensions are symbols, and some calls have no rows or one."""
    module = case.make()
    compiled = torch.compile(module, backend="autofuse", dynamic=True, options=OPTIONS)
    for n in (0, 19, 1):
        same(module, compiled, list(case.inputs(n)))
    # PyTorch divides numbers of elements that it does not know in float64.
    check_report(case, "float64")
