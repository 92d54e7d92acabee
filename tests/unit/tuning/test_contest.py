"""Contests on stand-ins for devices, of which the times are known: what wins, and what noise keeps from winning."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.measure.tuning.contest import LEAST_GAIN, Candidate, Clock, Contest, Samples, Sizes
from autofuse.measure.tuning.store import Record, Store
from autofuse.measure.tuning.store_format import read_records

SHAPES: tuple[Sizes, ...] = ({"n": 100}, {"n": 1000})


class Device:
    """A device on which a candidate takes the microseconds of its payload, with noise and a drifting clock."""

    measures = True

    def __init__(self, noise: float = 0.0, drift: float = 0.0, seed: int = 0) -> None:
        self.facts: Mapping[str, str] = {"device": "stand-in"}
        self._random, self._noise, self._drift = random.Random(seed), noise, drift
        self.calls: list[list[str]] = []
        self._lock = threading.Lock()

    def run(self, candidates: Sequence[Candidate], sizes: Sizes, rounds: int) -> list[Samples]:
        with self._lock:
            self.calls.append([c.key for c in candidates])
        made: list[list[float]] = [[] for _ in candidates]
        for r in range(rounds):
            for own, c in zip(made, candidates, strict=True):
                us = 0.0 if isinstance(c.payload, str) else c.payload * (1 + self._drift * r)
                own.append(us * (1 + self._noise * self._random.gauss(0, 1)))
        return [
            Samples(why=c.payload) if isinstance(c.payload, str) else Samples(tuple(u))
            for u, c in zip(made, candidates, strict=True)
        ]


def _candidate(key: str, us: float | str) -> Candidate:
    return Candidate(key, key, us)


def _contest(devices: Sequence[Device], store: Store | None = None, **options: object) -> Contest:
    given = {"clock": Clock(None), "store": store or Store(None), "context": "0" * 64, "rounds": 15}
    return Contest(devices, _candidate("default", 100.0), SHAPES, **(given | options))  # type: ignore[arg-type]


def test_the_fastest_wins() -> None:
    contest = _contest([Device(noise=0.02, drift=0.05)])
    contest.screen([_candidate("a", 90.0), _candidate("b", 70.0), _candidate("c", 130.0)])
    verdict = contest.judge()
    assert verdict.winner is not None
    assert verdict.winner.key == "b"
    # The device has a noise of 2 % per measurement.
    assert verdict.gain == pytest.approx(0.3, abs=0.03)
    assert verdict.noise < 0.1
    assert len(verdict.us) == len(verdict.default_us) == len(SHAPES)
    assert verdict.measured == 3


def test_what_is_better_by_luck_alone_does_not_win() -> None:
    wins = 0
    for seed in range(40):
        contest = _contest([Device(noise=0.05, seed=seed)])
        contest.screen([_candidate(f"same {i}", 100.0) for i in range(12)])
        assert contest.best.key != "default"  # one of twelve looks better
        wins += contest.judge().winner is not None
    assert wins <= 2


def test_a_gain_below_the_least_is_none() -> None:
    contest = _contest([Device()])
    contest.screen([_candidate("a", 100.0 * (1 - LEAST_GAIN / 2))])
    verdict = contest.judge()
    assert verdict.winner is None
    assert verdict.best is not None


def test_what_is_wrong_has_no_time() -> None:
    contest = _contest([Device()])
    contest.screen([_candidate("a", "3 elements differ"), _candidate("b", 50.0)])
    verdict = contest.judge()
    assert verdict.failed == {"a": "3 elements differ"}
    assert verdict.winner is not None
    assert verdict.winner.key == "b"


def test_a_default_that_is_wrong_is_an_error() -> None:
    contest = Contest(
        [Device()],
        _candidate("default", "it loops"),
        SHAPES,
        clock=Clock(None),
        store=Store(None),
        context="0" * 64,
        rounds=3,
    )
    with pytest.raises(AutofuseError, match="it loops"):
        contest.screen([_candidate("a", 1.0)])


def test_a_budget_ends_it() -> None:
    contest = _contest([Device()], clock=Clock(0))
    contest.screen([_candidate("a", 1.0)])
    verdict = contest.judge()
    assert (verdict.measured, verdict.complete, verdict.winner) == (0, False, None)


def test_several_devices_share_the_candidates() -> None:
    devices = [Device(), Device()]
    contest = _contest(devices)
    contest.screen([_candidate(f"c{i}", 100.0 - i) for i in range(40)])
    asked = [key for d in devices for call in d.calls for key in call if key != "default"]
    assert sorted(asked) == sorted([f"c{i}" for i in range(40)] * len(SHAPES))
    assert all(call[0] == "default" for d in devices for call in d.calls)
    winner = contest.judge().winner
    assert winner is not None
    assert winner.key == "c39"


def test_a_store_spares_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    first = _contest([Device()], Store(path))
    first.screen([_candidate("a", 90.0), _candidate("bad", "wrong")])
    with path.open("a") as f:
        f.write('{"schema": "autofuse.measure.tuning-st')  # a run that was ended while it wrote
    known = [
        Record(r.context, r.sizes, r.key, r.us, r.default_us, r.ratio, r.why)
        for r in read_records(path)
    ]
    device = Device()
    second = _contest([device], Store(path, tuple(known)))
    second.screen([_candidate("a", 90.0), _candidate("bad", "wrong"), _candidate("b", 80.0)])
    assert {key for call in device.calls for key in call} == {"default", "b"}
    assert second.failed == {"bad": "wrong"}
    assert second.ratios["a"] == pytest.approx(0.9)
    assert len(read_records(path)) == len(known) + len(SHAPES)
    other = _contest([device], Store(path, tuple(known)), context="1" * 64)
    other.screen([_candidate("a", 90.0)])
    assert device.calls[-1] == ["default", "a"]


@pytest.mark.parametrize(
    "line",
    [
        '{"schema": "autofuse.results/1"}',
        '{"schema": "autofuse.tuning-store/1", "context": "../x", "sizes": {}, "key": "k", "us": 1.0, '
        '"default_us": 1.0, "ratio": 1.0, "why": ""}',
        '{"schema": "autofuse.tuning-store/1", "context": "%s", "sizes": {}, "key": "k", "us": 1.0, '
        '"default_us": 1.0, "ratio": 0.0, "why": ""}' % ("0" * 64),
        '{"schema": "autofuse.tuning-store/1", "context": "%s", "sizes": {}, "key": "k", "us": NaN, '
        '"default_us": 1.0, "ratio": 1.0, "why": ""}' % ("0" * 64),
    ],
)  # fmt: skip
def test_a_store_of_others_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "store.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(AutofuseError) as e:
        read_records(path)
    assert e.value.diagnostics[0].code == "AF1004"
    assert e.value.diagnostics[0].where.line == 1
