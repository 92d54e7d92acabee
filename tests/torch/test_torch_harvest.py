"""benchmarks/zoo/harvest.py: the regions of a model as graph files, without computing anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import harvest
import pytest
import torch
from torch import nn

from autofuse import api
from autofuse.clients.torch import calls, selection


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inside = nn.LayerNorm(96), nn.Linear(96, 200)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.inside(self.norm(x) * 2.0))


def build(small: bool) -> tuple[nn.Module, dict[str, Any]]:
    return Block(), {"x": torch.randn(1 << 20, 96)}  # 400 MB, if it were computed


@pytest.mark.parametrize("trains", [False, True])
def test_regions_of_a_model(trains: bool, tmp_path: Path) -> None:
    before = selection.built_for, calls.select
    graphs = harvest.regions(harvest.Model(build, trains))
    assert (selection.built_for, calls.select) == before
    assert len(graphs) > 1 + trains
    assert sum(harvest.write(g, "a block", tmp_path) for g in graphs) >= 2
    assert not any(harvest.write(g, "again", tmp_path) for g in graphs)
    for path in tmp_path.glob("*.json"):
        assert json.loads(path.read_text())["name"].startswith("a_block_")
        assert api.read(path).nodes
