"""``torch.compile`` through Triton: which target is taken, what is missing, and calls in Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from extras import needs

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch import Options
from autofuse.clients.torch.devices import cuda, kernels
from autofuse.clients.torch.refusal import RefusedError
from autofuse.targets import load_gpu

CPU = torch.device("cpu")
needs_triton = needs("triton")


@needs_triton
@pytest.mark.parametrize(
    "file",
    ["interpreted_inductor.py", pytest.param("test_torch_gpu.py", marks=pytest.mark.slow)],
)
def test_in_the_interpreter(repo: Path, file: str) -> None:
    """Triton reads the variable when it is imported, so in a process of its own."""
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--show-capture=no"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"tests/torch/{file}"],
        capture_output=True,
        text=True,
        cwd=repo,
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@needs_triton
@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="Triton interprets here")
def test_tensors_on_cpu_need_the_interpreter() -> None:
    """Whatever ``fallback`` says: it is wrong with the process, not with the graph."""
    f = torch.compile(
        lambda x: torch.relu(x) * 0.5, backend="autofuse", options={"target": "nvidia-h100"}
    )
    with pytest.raises(
        Exception, match=r"AF5001.*nvidia-h100.*interpreter(.|\n)*TRITON_INTERPRET=1"
    ):
        f(torch.randn(8))


def test_triton_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "find_spec", lambda name: None)
    with pytest.raises(AutofuseError, match=r"AF5001.*package triton(.|\n)*ascend-autofuse\[gpu\]"):
        cuda.check_triton("nvidia-h100", CPU)


def properties(name: str, count: int) -> Any:
    """Of a card, as its driver gives them."""
    return SimpleNamespace(
        name=name,
        multi_processor_count=count,
        major=9,
        minor=0,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048,
        shared_memory_per_multiprocessor=233472,
        L2_cache_size=52428800,
        clock_rate=1980000,
        memory_clock_rate=2619000,
        memory_bus_width=5120,
    )


@pytest.mark.parametrize(
    ("name", "count", "target"),
    [
        ("NVIDIA H100 80GB HBM3", 132, "nvidia-h100"),
        ("NVIDIA H200", 132, "nvidia-h200"),
        ("NVIDIA H100 PCIe", 114, "nvidia-h100-pcie"),
        ("NVIDIA L40S", 142, "nvidia-l40s"),
    ],
)
def test_a_card_is_known_by_its_name(
    name: str, count: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by what it has: the figures of a file are not for a smaller card of the same name."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties(name, count))
    monkeypatch.setattr(cuda, "_card", cuda._card.__wrapped__)
    found = kernels.target_for(Options(), torch.device("cuda:3"))
    assert found.name == target
    assert found.figures()


@pytest.mark.parametrize(
    ("target", "device", "words"),
    [
        ("", "cpu", ""),
        ("cpu", "cpu", ""),
        ("cpu", "npu", "cpu has no kernels for tensors on npu"),
        ("ascend910b1", "cpu", ""),
        ("ascend910b1", "npu", ""),
        ("ascend910b1", "cuda", "ascend910b1 has no kernels for tensors on cuda"),
        ("nvidia-h100", "cpu", ""),
        ("nvidia-h100", "cuda", ""),
        ("nvidia-h100", "npu", "nvidia-h100 has no kernels for tensors on npu"),
        ("triton-ascend910b1", "cpu", ""),
        ("triton-ascend910b1", "npu", ""),
        ("triton-ascend910b1", "cuda", "triton-ascend910b1 has no kernels for tensors on cuda"),
    ],
)
def test_targets_and_devices(target: str, device: str, words: str) -> None:
    where: Any = SimpleNamespace(type=device, index=0)
    options = Options.of({"target": target})
    if words:
        with pytest.raises(RefusedError, match=words):
            kernels.target_for(options, where)
    else:
        assert kernels.target_for(options, where).name == (target or "cpu")


def test_the_model_of_the_twin_is_not_asked_about_a_gpu() -> None:
    assert kernels.traffic(None, {}) is None


def test_numbers_on_a_cpu_beside_a_card_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of theirs would be one for the CPU."""
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    from autofuse.clients.torch import calls, report, selection

    devices = []

    def built_for(graph: Any, options: Options, device: torch.device) -> Any:
        devices.append(device.type)
        raise RefusedError("no card")

    monkeypatch.setattr(selection, "built_for", built_for)
    monkeypatch.setattr(selection, "target_for", lambda options, device: load_gpu("nvidia-h100"))
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(3, 4, device="cuda")
        count = torch.empty((), device="cpu")
        graph = make_fx(lambda x, n: (torch.relu(x) * 2, torch.exp(n + 1) * 2))(x, count)
        calls.compile_graph(graph, Options())
    assert devices == ["cuda"]
    (found,) = (g for g in report().graphs[-1:])
    assert {why for _, why in found.not_fused if "CPU" in why}
