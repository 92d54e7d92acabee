"""PyTorch finds the tensors that a launch writes, and Inductor compiles it as its form was chosen for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
from torch._higher_order_ops import triton_kernel_wrap
from triton.backends.compiler import GPUTarget

from autofuse import api
from autofuse.clients.torch.devices.programs import TritonProgram
from autofuse.targets import load_gpu

pytestmark = pytest.mark.triton

GPU = load_gpu("nvidia-h100")
GRAPHS = sorted((Path(__file__).parents[1] / "snapshot" / "graphs").glob("*.json"))
#: Its name up to PyTorch 2.13 or so, with the names of the written tensors, and since then.
OF_NAMES = getattr(triton_kernel_wrap, "identify_mutated_tensors", None)


class Card:
    """A driver without a card."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0


def written(kernel: object, given: dict[str, object]) -> set[str]:
    """The tensors that PyTorch finds written; all, and then no CUDA graphs, if its analysis fails."""
    if OF_NAMES is not None:
        return set(OF_NAMES(kernel, given, {}))
    found = triton_kernel_wrap.identify_accessed_tensors(kernel, given, {})
    return {d.name for d in found.read_writes.writes}


def test_what_a_launch_writes_and_how_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor compiles for the warps of the only configuration, without clusters."""
    monkeypatch.setattr(triton.runtime.driver, "_active", Card())
    count = 0
    for path in GRAPHS:
        program = TritonProgram(api.build(path, target=GPU).graph, GPU)
        for launch, kernel in zip(program.launches, program.kernels, strict=True):
            names = list(kernel.arg_names)
            memory = dict(zip(names, launch.memory, strict=False))
            given: dict[str, object] = {
                name: torch.empty(2, dtype=getattr(torch, m.dtype.name))
                for name, m in memory.items()
            }
            given |= {n: 2 for n in names if n not in given} | dict(launch.constants)
            assert written(kernel, given) == {n for n, m in memory.items() if m in launch.written}
            (how,) = kernel.configs
            assert (how.num_warps, how.num_ctas) == (launch.warps, 1)
            count += 1
    assert count > len(GRAPHS)
