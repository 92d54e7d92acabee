"""PyTorch's own operator samples: a few operators here; ``benchmarks/clients/torch_opinfo.py`` runs all of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

pytest.importorskip("expecttest", reason="PyTorch's samples need the package expecttest")

import torch_opinfo

_NAMES = """
    add sub mul div.floor_rounding true_divide pow remainder where clamp maximum logical_and isnan logical_xor
    exp log1p sigmoid erf rsqrt nn.functional.gelu nn.functional.silu nn.functional.softplus nn.functional.mish
    softmax log_softmax sum mean amax var std argmax cumsum cat flip tril gather take_along_dim
    nn.functional.layer_norm nn.functional.smooth_l1_loss nn.functional.pad.constant"""


@lru_cache(maxsize=1)
def _operators() -> dict[str, Any]:
    return {torch_opinfo.name_of(op): op for op in torch_opinfo.operators()}


@pytest.mark.twin
@pytest.mark.parametrize("name", _NAMES.split())
def test_samples_equal_eager(name: str) -> None:
    outcome = torch_opinfo.run_operator(_operators()[name], most=1)
    assert outcome.samples == 1
    assert outcome.fused == 1
    assert dict(outcome.wrong) == {}
