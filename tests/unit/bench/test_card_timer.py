"""The timer of a card, with a clock that plays the card: what is counted into a sample, and what is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from extras import required

pytestmark = required("torch", "triton")

import torch

from autofuse import api
from autofuse.machines.gpu import loading, timing
from autofuse.machines.gpu.timer import CardTimer
from autofuse.machines.timing import Plan
from autofuse.measure.bench.measure import measure

#: Microseconds of a call, of what clears L2, and of what keeps the card busy.
CALL, CLEAR, BUSY = 7.0, 100.0, 1000.0
EMPTY = torch.empty


class Card:
    """A card whose time passes as calls run on it."""

    def __init__(self) -> None:
        self.now, self.calls, self.cleared = 0.0, 0, 0
        self.capturing: list[int] | None = None
        self.captures = True

    def call(self) -> None:
        self.calls += 1
        if self.capturing is None:
            self.now += CALL
        else:
            self.capturing[0] += 1

    def event(self, enable_timing: bool) -> Any:
        assert enable_timing
        mark = SimpleNamespace(at=0.0, synchronize=lambda: None)
        mark.record = lambda: setattr(mark, "at", self.now)
        mark.elapsed_time = lambda end: (end.at - mark.at) / 1e3
        return mark

    def graph(self) -> Any:
        made = SimpleNamespace(count=[0])

        def replay() -> None:
            self.now += CALL * made.count[0]

        made.replay = replay
        return made

    @contextmanager
    def capture(self, graph: Any, stream: Any) -> Iterator[None]:
        if not self.captures:
            raise RuntimeError("it cannot be captured")
        self.capturing = graph.count
        yield
        self.capturing = None

    def busy(self, cycles: int) -> None:
        self.now += BUSY

    def buffer(self, *args: Any, **named: Any) -> Any:
        if named.get("dtype") is torch.uint8:
            assert args == (4 * (50 << 20),)

            def zero() -> None:
                self.cleared += 1
                self.now += CLEAR

            return SimpleNamespace(zero_=zero)
        named.pop("device", None)
        return EMPTY(*args, **named)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    made = Card()
    cuda = torch.cuda
    monkeypatch.setattr(cuda, "device", lambda d: nullcontext())
    monkeypatch.setattr(cuda, "device_count", lambda: 1)
    monkeypatch.setattr(cuda, "Stream", lambda: SimpleNamespace(wait_stream=lambda s: None))
    monkeypatch.setattr(cuda, "current_stream", lambda: None)
    monkeypatch.setattr(cuda, "stream", lambda s: nullcontext())
    monkeypatch.setattr(cuda, "synchronize", lambda *d: None)
    monkeypatch.setattr(cuda, "Event", made.event)
    monkeypatch.setattr(cuda, "CUDAGraph", made.graph)
    monkeypatch.setattr(cuda, "graph", made.capture)
    monkeypatch.setattr(cuda, "_sleep", made.busy)
    monkeypatch.setattr(
        cuda, "get_device_properties", lambda d: SimpleNamespace(L2_cache_size=50 << 20)
    )
    monkeypatch.setattr(torch, "empty", made.buffer)
    return made


DEVICE = torch.device("cuda:0")


def test_a_warm_sample_is_the_mean_of_many_calls(card: Card) -> None:
    us, method = timing.sampled(card.call, DEVICE, warm_up=4, repeats=9, clear=False)
    assert us == pytest.approx([CALL] * 9)
    assert method == "graph"
    # Warming up, the estimate, and one capture: replays call nothing of the host.
    assert card.calls == 4 + 3 + 100


def test_what_cannot_be_captured_is_queued(card: Card) -> None:
    card.captures = False
    us, method = timing.sampled(card.call, DEVICE, warm_up=0, repeats=5, clear=False)
    assert us == pytest.approx([CALL] * 5)
    assert method == "queue"


def test_clearing_is_not_part_of_a_sample(card: Card) -> None:
    us, method = timing.sampled(card.call, DEVICE, warm_up=2, repeats=70, clear=True)
    assert us == pytest.approx([CALL] * 70)
    assert method == "queue"
    assert (card.cleared, card.calls) == (70, 72)


def test_timed_gives_the_median_of_its_samples(card: Card) -> None:
    found = timing.timed(card.call, DEVICE)
    assert (found.us, found.method, found.calls) == (pytest.approx(CALL), "graph", 1000)


GRAPH = api.read(
    {
        "schema": "autofuse.graph/1",
        "name": "shift",
        "symbols": {"n": {"min": 1, "max": 4096, "hint": 100}},
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 4]}],
        "nodes": [{"name": "a", "op": "Add", "inputs": ["x", {"const": 1.0}], "outputs": ["y"]}],
        "outputs": ["y"],
    }
)
#: What a kernel would compute, in PyTorch.
TEXT = """
import torch

CALLED = []


def shift(x):
    CALLED.append(x.shape)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    y[:] = x + OFFSET
    return y
"""


@pytest.mark.triton
@pytest.mark.parametrize("l2", ["warm", "clear"])
def test_a_module_is_compared_and_timed(
    card: Card, monkeypatch: pytest.MonkeyPatch, l2: str
) -> None:
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, to: tensor.clone())
    files = {loading.module_file(GRAPH): TEXT.replace("OFFSET", "1.0")}
    runner = CardTimer(files, GRAPH, "cuda:0")
    module = runner._module
    function = module.function

    def counted(*tensors: Any, **sizes: Any) -> Any:
        card.call()
        return function(*tensors, **sizes)

    module.function = counted
    found = measure(runner, {"n": 6}, Plan(warm_up=3, repeats=8, l2=l2))
    assert list(found.samples.us) == pytest.approx([CALL] * 8)
    assert (found.compared.elements, found.compared.max_ulp) == (24, 0.0)
    assert found.key == -1


@pytest.mark.triton
def test_the_tensors_of_a_timed_call_hold_the_data(
    card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, to: tensor.clone())
    files = {loading.module_file(GRAPH): TEXT.replace("OFFSET", "2.0")}
    module = loading.load_here(files, GRAPH, "cuda:0")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    made: Any = module.prepared({"x": x}, {"n": 2})()
    assert np.array_equal(made.numpy(), x + 2)
