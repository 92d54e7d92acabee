"""Modules of Triton kernels on a card, as far as a machine without one can tell: the CPU plays the card."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import draws
import numpy as np
import pytest
import triton_modules as written
from extras import required

pytestmark = [required("torch", "triton"), pytest.mark.triton]

import torch

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.gpu import loading
from autofuse.machines.gpu.module import TritonModule

GRAPH = api.read(written.softmax_graph())
#: What the kernels would compute, in PyTorch: it is called as they are.
TEXT = """
import torch


def soft(x, bias):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    BEFORE
    y[:] = torch.softmax(x.float() + bias.float(), -1).half()
    return y
"""


class Card:
    """A card: how many there are, and what happened to them."""

    def __init__(self) -> None:
        self.count = 2
        self.fails: Exception | None = None
        self.entered: list[str] = []
        self.current: list[str] = []

    @contextmanager
    def device(self, device: Any) -> Iterator[None]:
        self.entered.append(str(device))
        self.current.append(str(device))
        yield
        self.current.pop()

    def allocated(self, *args: Any, **named: Any) -> Any:
        if self.fails is not None:
            raise self.fails
        if "device" in named:
            named["device"] = "cpu"
        return EMPTY(*args, **named)

    def moved(self, tensor: Any, to: Any) -> Any:
        assert to.type == "cuda"
        if self.fails is not None:
            raise self.fails
        return tensor.clone()


EMPTY = torch.empty


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    made = Card()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: made.count)
    monkeypatch.setattr(torch.cuda, "device", made.device)
    monkeypatch.setattr(torch, "empty", made.allocated)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, to: made.moved(tensor, to))
    return made


def loaded(before: str = "pass", device: str = "cuda:1") -> TritonModule:
    return TritonModule(TEXT.replace("BEFORE", before), GRAPH, "soft", device)


def inputs() -> dict[str, Any]:
    rng = draws.rng()
    return {n: rng.standard_normal(s).astype(np.float16) for n, s in INPUTS.items()}


INPUTS = {"x": (5, 96), "bias": (96,)}


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_it_is_the_current_card_while_it_computes(card: Card, device: str) -> None:
    given = inputs()
    run = loaded(device=device).run(given, poison=0xFF)
    want = np.exp(given["x"].astype(np.float64) + given["bias"])
    np.testing.assert_allclose(
        run.outputs["y"], want / want.sum(-1, keepdims=True), rtol=2e-3, atol=1e-6
    )
    assert card.entered == [device]
    assert not card.current


def test_elements_that_nobody_writes_hold_the_poison(card: Card) -> None:
    found = loaded("return y").run(inputs(), poison=0xA5).outputs["y"]
    assert (found.view(np.uint8) == 0xA5).all()


def test_there_is_no_such_card(card: Card) -> None:
    with pytest.raises(AutofuseError, match="AF5001: there is no device cuda:2 here"):
        loaded(device="cuda:2")
    card.count = 0
    with pytest.raises(AutofuseError, match="AF5001: there is no device cuda here"):
        loaded(device="cuda")


def test_a_card_that_cannot_be_used(card: Card) -> None:
    """It is counted, and another process has it for itself, or all of its memory."""
    card.fails = RuntimeError("CUDA error: all devices are busy\nmore")
    with pytest.raises(
        AutofuseError, match=r"AF5001: device cuda:1 cannot be used: .*are busy$"
    ) as e:
        loaded()
    assert "more" not in str(e.value)


@pytest.mark.parametrize("where", ["inputs", "call"])
def test_memory_that_is_not_there(card: Card, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The card is as good as before: the process goes on."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: pytest.fail("nothing is broken"))
    memory = "raise torch.OutOfMemoryError('CUDA out of memory. Tried 80 GiB')"
    module = loaded(memory if where == "call" else "pass")
    if where == "inputs":
        card.fails = torch.OutOfMemoryError("CUDA out of memory. Tried 80 GiB")
    with pytest.raises(
        AutofuseError, match=r"AF5003: cuda:1 is out of memory .*80 GiB(.|\n)*smaller sizes"
    ):
        module.run(inputs())
    card.fails = None
    assert loaded().run(inputs()).outputs["y"].shape == (5, 96)


def test_a_kernel_that_breaks_its_card_ends_the_process(
    card: Card, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def ended(status: int) -> None:
        raise SystemExit(status)

    module = loaded("raise RuntimeError('launch failed')")
    monkeypatch.setattr(os, "_exit", ended)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    with pytest.raises(AutofuseError, match=r"AF5003: a call of the module raises .*launch failed"):
        module.run(inputs())
    monkeypatch.setattr(torch.cuda, "synchronize", broken)
    with pytest.raises(SystemExit) as e:
        module.run(inputs())
    assert e.value.code == 1
    assert "illegal memory access" in capsys.readouterr().err


def test_no_kernel_is_interpreted_on_a_card(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the variables of the caller say."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    files = {"soft_triton.py": TEXT.replace("BEFORE", "pass")}
    assert loading.load_here(files, GRAPH, "cuda").run(inputs()).outputs["y"].shape == (5, 96)
    assert "TRITON_INTERPRET" not in os.environ


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:0", "cuda:12"])
def test_devices(device: str) -> None:
    assert loading.checked_device(device) == device
    assert str(torch.device(device)) == device


@pytest.mark.parametrize(
    "device", ["", "cuda:", "cuda:01", "cuda:-1", "cuda:128", "cuda:0\n", "mps", "CUDA", "cuda:1٣"]
)
def test_what_is_no_device(device: str) -> None:
    with pytest.raises(AutofuseError, match="AF5007: kernels run on cpu, cuda or cuda:N, not on"):
        loading.checked_device(device)
