"""Kernels for tensors on the CPU that a card runs: the CPU twin stands in for the card."""

import pytest
import torch
from fake_cards import fake_card

from autofuse.base import knobs
from autofuse.base.diagnostics import AutofuseError

pytestmark = pytest.mark.twin

OPTIONS = {"target": "ascend910b1", "min_ops": 1, "fallback": "error"}


def normed(x, w):
    return torch.nn.functional.layer_norm(x, x.shape[1:]) * torch.sigmoid(w) + x


def test_a_card_computes_what_the_twin_would(monkeypatch):
    card = fake_card(monkeypatch)
    monkeypatch.setenv(knobs.DEVICE.name, "cuda:1")
    compiled = torch.compile(normed, backend="autofuse", options=OPTIONS)
    for rows in (7, 12):
        x, w = torch.randn(rows, 40), torch.randn(40)
        launched = len(card.launches)
        torch.testing.assert_close(compiled(x, w), normed(x, w))
        assert len(card.launches) > launched
    assert not card.memory


def test_what_fails_on_the_card_is_no_result_of_pytorch(monkeypatch):
    card = fake_card(monkeypatch)
    monkeypatch.setenv(knobs.DEVICE.name, "cuda")

    def fail(pointers):
        raise AutofuseError.of("AF5003", "the kernel failed")

    card.spoil = fail
    compiled = torch.compile(
        normed, backend="autofuse", dynamic=False, options={"target": "ascend910b1", "min_ops": 1}
    )
    with pytest.raises(AutofuseError, match="the kernel failed"):
        compiled(torch.randn(7, 40), torch.randn(40))


def test_a_word_that_names_no_card(monkeypatch):
    fake_card(monkeypatch)
    monkeypatch.setenv(knobs.DEVICE.name, "npu:0")
    compiled = torch.compile(normed, backend="autofuse", dynamic=False, options=OPTIONS)
    with pytest.raises(Exception, match="AUTOFUSE_DEVICE='npu:0' does not name a device"):
        compiled(torch.randn(7, 40), torch.randn(40))


def test_the_card_is_not_asked_where_nothing_is_said(monkeypatch):
    card = fake_card(monkeypatch)
    monkeypatch.delenv(knobs.DEVICE.name, raising=False)
    compiled = torch.compile(normed, backend="autofuse", dynamic=False, options=OPTIONS)
    x, w = torch.randn(7, 40), torch.randn(40)
    torch.testing.assert_close(compiled(x, w), normed(x, w))
    assert not card.launches
