"""Modules timed in turns, as far as a machine without a card can tell: a stand-in plays the clock of one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import triton_modules as written
from extras import required

pytestmark = [required("torch", "triton"), pytest.mark.triton]

import torch

from autofuse import api
from autofuse.implgraph.ir.serialise import to_json
from autofuse.machines.gpu import turns

GRAPH = api.read(written.softmax_graph())
TEXT = """
import torch


def soft(x, bias):
    y = torch.softmax(x.float() + bias.float(), -1).half()
    BEFORE
    return y
"""


def _module(before: str) -> str:
    return TEXT.replace("BEFORE", before)


def test_only_what_agrees_with_numpy_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    called: list[int] = []

    def timer(calls: Sequence[Any]) -> list[list[float]]:
        for call in calls:
            call()
        called.append(len(calls))
        return [[float(k + 1)] * 3 for k in range(len(calls))]

    job = {
        "graph": json.dumps(to_json(GRAPH)),
        "modules": [_module("pass"), _module("y[0, 0] = 9"), _module("y = y.clone()"), _module("y /= None")],
        "entry": "soft",
        "device": "cpu",
        "sizes": {s.name: 7 for s in GRAPH.symbols},
        "seed": 3,
        "rounds": 3,
        "check": True,
    }  # fmt: skip
    found = turns.measured(job, timer)
    assert called == [2]
    assert [f.get("us") for f in found] == [[1.0] * 3, None, [2.0] * 3, None]
    assert "from NumPy" in found[1]["why"]
    assert "TypeError" in found[3]["why"]


class Clock:
    """A card that is nothing but a clock: calls move it on, events read it."""

    def __init__(self, *, captures: bool) -> None:
        self.now, self.captures, self.taken = 0.0, captures, [0, 0]
        self.recording: list[int] | None = None

    def call(self, k: int) -> None:
        if self.recording is not None:
            self.recording.append(k)
            return
        self.taken[k] += 1
        self.now += (10.0, 20.0)[k]

    def cuda(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                self.at = 0.0

            def record(self) -> None:
                self.at = clock.now

            def synchronize(self) -> None:
                pass

            def elapsed_time(self, other: Event) -> float:
                return (other.at - self.at) / 1e3

        class Graph:
            def __init__(self) -> None:
                self.calls: list[int] = []

            def replay(self) -> None:
                for k in self.calls:
                    clock.call(k)

        class Stream:
            def wait_stream(self, other: object) -> None:
                pass

        @contextmanager
        def entered(*args: object) -> Iterator[None]:
            yield

        @contextmanager
        def capture(graph: Graph, stream: Stream) -> Iterator[None]:
            if not clock.captures:
                raise RuntimeError("it cannot be captured")
            clock.recording = graph.calls
            yield
            clock.recording = None

        def slept(cycles: int) -> None:
            clock.now += 1000.0

        for name, value in {
            "Event": Event, "CUDAGraph": Graph, "Stream": Stream, "device": entered, "stream": entered,
            "graph": capture, "synchronize": lambda *_: None, "current_stream": Stream, "_sleep": slept,
        }.items():  # fmt: skip
            monkeypatch.setattr(torch.cuda, name, value)


@pytest.mark.parametrize("captures", [True, False])
def test_samples_are_times_of_one_call(monkeypatch: pytest.MonkeyPatch, captures: bool) -> None:
    clock = Clock(captures=captures)
    clock.cuda(monkeypatch)
    calls = [lambda: clock.call(0), lambda: clock.call(1)]
    found = turns.in_turns(calls, torch.device("cuda", 0), 6)
    assert found == [[pytest.approx(10.0)] * 6, [pytest.approx(20.0)] * 6]
    # 40 calls of 10 us, and 20 of 20 us, are a sample; each is preceded by as many that are not timed.
    assert clock.taken[0] > 2 * 6 * 40
    assert clock.taken[1] > 2 * 6 * 20
