"""PyTorch's own operator samples: a few operators here; ``benchmarks/clients/torch_opinfo.py`` runs all of them."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from extras import required

pytestmark = [required("expecttest"), pytest.mark.sampled(2)]

import torch
import torch_opinfo

_NAMES = """
    add sub mul div.floor_rounding true_divide pow remainder where clamp maximum logical_and isnan logical_xor
    exp log1p sigmoid erf rsqrt nn.functional.gelu nn.functional.silu nn.functional.softplus nn.functional.mish
    softmax log_softmax sum mean amax var std argmax cumsum cat flip tril gather take_along_dim
    nn.functional.layer_norm nn.functional.smooth_l1_loss nn.functional.pad.constant"""


_MORE = "lerp addcmul addcdiv xlogy fmod eq lt rsub floor_divide true_divide nn.functional.hardshrink hypot logaddexp"
_TYPES = [d for d in torch_opinfo.TOLERANCES if d != torch.float32]


@cache
def _operators(dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    return {torch_opinfo.name_of(op): op for op in torch_opinfo.operators(dtype)}


@pytest.mark.twin
@pytest.mark.parametrize("name", _NAMES.split())
def test_samples_equal_eager(name: str) -> None:
    outcome = torch_opinfo.run_operator(_operators()[name], most=1)
    assert outcome.samples == 1
    assert outcome.fused == 1
    assert dict(outcome.wrong) == {}


@pytest.mark.twin
@pytest.mark.parametrize("dtype", _TYPES, ids=torch_opinfo.named)
def test_samples_of_other_types_equal_eager(dtype: torch.dtype) -> None:
    """Two of the operators that have samples of the type: others at each run."""
    having = sorted({*_NAMES.split(), *_MORE.split()} & _operators(dtype).keys())
    for name in random.sample(having, 2):
        print(name)  # noqa: T201 - for a failure
        outcome = torch_opinfo.run_operator(_operators(dtype)[name], most=1, dtype=dtype)
        assert outcome.samples == 1
        assert dict(outcome.wrong) == {}
