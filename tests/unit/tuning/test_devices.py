"""Workers that measure: what they answer is checked, and one that ends takes no other candidate along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.machines.twin.run.worker import Outcome
from autofuse.measure.tuning import devices
from autofuse.measure.tuning.contest import Candidate, Sizes
from autofuse.measure.tuning.devices import DeviceRunner

FACTS = {"device": "chip", "fake": "false"}


class Work:
    job = "a:b"

    def item(
        self, device: str, candidates: Sequence[Candidate], sizes: Sizes, rounds: int
    ) -> dict[str, Any]:
        return {"keys": [c.key for c in candidates], "rounds": rounds, "device": device}


def _candidates(*keys: str) -> list[Candidate]:
    return [Candidate(k, k, None) for k in keys]


def _answer(item: Mapping[str, Any]) -> Outcome:
    """A worker that dies of a candidate, and finds another one wrong."""
    if "kills" in item["keys"]:
        return Outcome(item, diagnostics=(Diagnostic("AF5003", "it did not return"),))
    rows = [
        {"why": "3 elements differ"} if k == "wrong" else {"us": [float(len(k))] * item["rounds"]}
        for k in item["keys"]
    ]
    return Outcome(item, {"facts": FACTS, "found": rows})


def _runner(send: Any = _answer) -> DeviceRunner:
    runner = DeviceRunner(Work(), "npu:0", send)
    runner.facts = FACTS
    return runner


def test_a_candidate_that_ends_the_worker_is_told_apart() -> None:
    found = _runner().run(_candidates("default", "good", "kills", "wrong"), {}, 3)
    assert found[0].us == (7.0,) * 3
    assert found[1].us == (4.0,) * 3
    assert found[2].why == "it did not return"
    assert found[3].why == "3 elements differ"


def test_a_default_that_ends_the_worker_ends_the_run() -> None:
    with pytest.raises(AutofuseError, match="did not return"):
        _runner().run(_candidates("kills", "good", "other"), {}, 3)


def test_what_is_missing_is_not_tried_again() -> None:
    asked: list[object] = []

    def send(item: Mapping[str, Any]) -> Outcome:
        asked.append(item)
        return Outcome(item, diagnostics=(Diagnostic("AF5011", "there is no CANN"),))

    with pytest.raises(AutofuseError, match="no CANN"):
        _runner(send).run(_candidates("default", "a", "b"), {}, 3)
    assert len(asked) == 1


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"facts": FACTS, "found": []},
        {"facts": FACTS, "found": [{"us": [1.0]}, {"us": [1.0]}]},
        {"facts": FACTS, "found": [{"us": [1.0, -1.0]}, {"us": [1.0, 1.0]}]},
        {"facts": FACTS, "found": [{"us": [1.0, float("nan")]}, {"us": [1.0, 1.0]}]},
        {"facts": FACTS, "found": [{"us": "12"}, {"us": ["x", 1.0]}]},
        {"facts": FACTS, "found": [{"why": 3}, {"why": ""}]},
        {"facts": {"device": 3}, "found": [{"us": [1.0, 1.0]}, {"us": [1.0, 1.0]}]},
    ],
)
def test_an_answer_is_checked(value: Any) -> None:
    runner = _runner(lambda item: Outcome(item, value))
    with pytest.raises(AutofuseError) as e:
        runner.run(_candidates("default", "a"), {}, 2)
    assert e.value.diagnostics[0].code == "AF1403"


def test_workers_with_different_chips_are_refused() -> None:
    rows = [{"us": [1.0]}, {"us": [1.0]}]
    answer = {"facts": {"device": "another"}, "found": rows}
    with pytest.raises(AutofuseError, match="different devices: another, chip"):
        _runner(lambda item: Outcome(item, answer)).run(_candidates("default", "a"), {}, 1)


def test_a_scheduler_gets_items_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    def on_cluster(address: str, job: str, items: Any, **options: Any) -> Any:
        sent.append((address, job, options))
        return iter([(0, _answer(items[0]))])

    monkeypatch.setattr(devices, "on_cluster", on_cluster)
    runner = devices.on_scheduler(Work(), "npu:0", "tcp://host:8786", 60.0)
    runner.meet(_candidates("default")[0], {})
    assert runner.facts == FACTS
    found = runner.run(_candidates("default", "a"), {}, 2)
    assert [s.us for s in found] == [(7.0, 7.0), (1.0, 1.0)]
    assert sent[0] == ("tcp://host:8786", "a:b", {"timeout_s": 60.0, "memory_mb": 0})
