"""Inductor's analysis of generated kernels: it finds what they write, or it would take every input as changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from extras import needs

from autofuse.clients.torch.devices.programs import TritonProgram
from autofuse.clients.torch.lower import lower
from autofuse.targets import load_gpu

pytestmark = needs("triton")

FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "items": lambda x, w: torch.relu(x * w) + 1,
    "two results": lambda x, w: (x * w, torch.exp(x) - w),
    "tiles": lambda x, w: (x * 2).permute(1, 0).contiguous() + 1,
    "rows": lambda x, w: torch.softmax(x * 0.5, -1) * w,
    "across": lambda x, w: torch.softmax(x * 0.5, 0) * w,
    "moments": lambda x, w: torch.layer_norm(x, (x.shape[-1],), w, None),
    "sums of all": lambda x, w: (x * w).sum(),
    "sums and rows": lambda x, w: ((x * w).sum(0), torch.softmax(x, -1)),
    "running sums": lambda x, w: torch.cumsum(x * 2, -1),
    "running sums of long rows": lambda x, w: torch.cumsum(x * 2, -1),
    "places": lambda x, w: torch.argmax(x * w, -1),
    "gather": lambda x, w: torch.gather(x, 1, (x * 2).abs().long() % x.shape[1]) + w,
    "cat": lambda x, w: torch.cat((x * 2, torch.exp(x)), -1),
}


@pytest.fixture
def _card() -> Iterator[None]:
    """A driver that only says for which card it is; Triton compiles for it without one."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    target = GPUTarget("cuda", 90, 32)
    own = driver._active
    driver.set_active(SimpleNamespace(get_current_target=lambda: target))
    yield
    driver._active = own


@pytest.mark.usefixtures("_card")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("what", FUNCTIONS)
def test_inductor_finds_what_is_written(what: str, dynamic: bool) -> None:
    from torch._higher_order_ops.triton_kernel_wrap import identify_accessed_tensors

    program = TritonProgram(graph_of(FUNCTIONS[what], dynamic), load_gpu("nvidia-h100"))
    assert program.launches
    for launch, kernel in zip(program.launches, program.kernels, strict=True):
        names = kernel.fn.arg_names
        tensors = {
            n: torch.empty(1, dtype=getattr(torch, m.dtype.name))
            for n, m in zip(names, launch.memory, strict=False)
        }
        written = {n for n, m in zip(names, launch.memory, strict=False) if m in launch.written}
        numbers = dict.fromkeys(names[len(tensors) : len(tensors) + len(launch.sizes)], 1000)
        found = identify_accessed_tensors(kernel.fn, tensors | numbers | launch.constants, {})
        assert {w.name for w in found.read_writes.writes} & set(tensors) == written


def graph_of(function: Callable[..., Any], dynamic: bool) -> Any:
    """The graph of all ops of a function, as a region has it."""
    from torch.fx.experimental.proxy_tensor import make_fx

    from autofuse.clients.torch.backend import decompositions

    long = function is FUNCTIONS["running sums of long rows"]
    x, w = (torch.randn(3, 200_000) if long else torch.randn(300, 96)), torch.randn(96)
    mode = "symbolic" if dynamic else "fake"
    graph = make_fx(function, decompositions(), tracing_mode=mode)(x, w).graph
    graph.eliminate_dead_code()
    nodes = [n for n in graph.nodes if n.op == "call_function" and "sym_size" not in str(n.target)]
    found = graph.output_node().args[0]
    return lower(nodes, list(found) if isinstance(found, tuple | list) else [found]).graph


FORMS = {
    "items": "items",
    "tiles": "tiles across",
    "rows": "rows short padded",
    "across": "rows across short padded",
    "sums of all": "loop in parts",
    "running sums": "rows running short padded",
    "running sums of long rows": "loop running few",
    "cat": "items",
}


@pytest.mark.parametrize("what", FORMS)
def test_the_form_of_a_program(what: str) -> None:
    """The choice inside Inductor looks up this form: 96 columns fill 128 places, and three rows are few."""
    program = TritonProgram(graph_of(FUNCTIONS[what], dynamic=False), load_gpu("nvidia-h100"))
    assert " ".join(program.form) == FORMS[what]
