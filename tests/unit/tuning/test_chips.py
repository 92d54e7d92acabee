"""Tilings for a chip that is played by a function of its own, which differs from the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from twin_graphs import every_template

from autofuse import api
from autofuse.codegen.backends.ascendc.tuning import Tilings
from autofuse.frontends.tuning import read_tuning
from autofuse.measure.tuning.chips import MOST_CANDIDATES, Range
from autofuse.measure.tuning.contest import Candidate, Samples, Sizes
from autofuse.measure.tuning.tune import Options, tune_chip
from autofuse.schedule.search.candidates import candidates, searched
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.given import given_cycles
from autofuse.schedule.search.solver import choose
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")


def _graph(nodes: Sequence[tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    return {
        "schema": "autofuse.graph/1",
        "name": "tuned",
        "symbols": {"rows": {"min": 1, "max": 100_000}},
        "inputs": [{"name": "x", "dtype": "float16", "shape": ["rows", 1000]}],
        "nodes": [
            {"name": f"n{y}", "op": op, "inputs": ["x"], "outputs": [y], "attrs": attrs}
            for op, y, attrs in nodes
        ],
        "outputs": [y for _, y, _ in nodes],
    }


SOFTMAX = api.read(_graph([("Softmax", "y", {"axis": -1})]))
#: Two groups.
SUMS = api.read(_graph([("ReduceSum", "y0", {"axes": [0]}), ("ReduceMax", "y1", {"axes": [1]})]))


class Played:
    """A chip on which every group wants six cores; what the host function chooses takes 200 us."""

    measures = True
    facts: Mapping[str, str] = {"device": "played", "fake": "true"}

    def __init__(self) -> None:
        self.seen: list[tuple[Sizes, str]] = []

    def run(self, chosen: Sequence[Candidate], sizes: Sizes, rounds: int) -> list[Samples]:
        self.seen += [(sizes, c.key) for c in chosen]
        return [Samples((self._us(c),) * rounds) for c in chosen]

    @staticmethod
    def _us(c: Candidate) -> float:
        groups = c.payload.groups
        return 100.0 + sum(abs(g.cores - 6) for g in groups) if groups else 400.0


def test_a_winner_is_a_row_of_the_table(tmp_path: Path) -> None:
    shape = Range({"rows": (512, 512)})
    found = tune_chip(SOFTMAX, CHIP, [shape], Options(), runners=[Played()])
    assert found.rows[0]["winner"] is not None
    path = tmp_path / "t.json"
    path.write_text(found.text)
    tilings = read_tuning(path)
    assert isinstance(tilings, Tilings)
    (row,) = tilings.rows
    assert dict(row.sizes) == {"rows": (512, 512)}
    (times,) = tilings.times
    assert (times.status, times.fake, times.on) == ("measured", True, "played")
    assert times.us < times.default_us == 400.0
    built = api.build(SOFTMAX, tuning=path)
    assert built.metadata["tuned"] == [row.to_json()]


def test_candidates_are_keys_of_one_kernel() -> None:
    device = Played()
    shape = Range({"rows": (512, 512)})
    tune_chip(SOFTMAX, CHIP, [shape], Options(top=6), runners=[device])
    keys = {key for _, key in device.seen}
    assert "default" in keys
    assert 6 < len(keys) <= MOST_CANDIDATES + 1


def test_a_range_is_measured_at_its_ends_and_between() -> None:
    device = Played()
    shape = Range({"rows": (256, 4096)})
    found = tune_chip(SOFTMAX, CHIP, [shape], Options(top=4), runners=[device])
    assert found.rows[0]["shapes"] == [{"rows": 256}, {"rows": 1024}, {"rows": 4096}]
    assert json.loads(found.text)["tilings"][0]["sizes"] == {"rows": [256, 4096]}
    assert {s["rows"] for s, _ in device.seen} == {256, 1024, 4096}


def test_the_best_choices_of_groups_are_tried_together() -> None:
    usual = {
        g for r in api.build(SUMS).schedule for g in searched(r, Costs(CHIP), {"rows": 3000}) or ()
    }

    class Averse(Played):
        """A chip that likes no choice of the search: 10 us more for every one."""

        @staticmethod
        def _us(c: Candidate) -> float:
            groups = c.payload.groups
            return 100.0 + 10 * sum(g in usual for g in groups) if groups else 400.0

    shape = Range({"rows": (3000, 3000)})
    found = tune_chip(SUMS, CHIP, [shape], Options(), runners=[Averse()])
    groups = json.loads(found.text)["tilings"][0]["groups"]
    assert len(groups) > 1
    assert found.rows[0]["us"] == [100.0]


def test_what_the_chip_does_not_prefer_stays_out(tmp_path: Path) -> None:
    class Other(Played):
        @staticmethod
        def _us(c: Candidate) -> float:
            return 100.0 if c.key == "default" else 120.0

    found = tune_chip(SOFTMAX, CHIP, [Range({"rows": (8, 8)})], Options(), runners=[Other()])
    assert json.loads(found.text)["tilings"] == []
    assert found.rows[0]["gain"] == pytest.approx(-0.2)
    path = tmp_path / "t.json"
    path.write_text(found.text)
    assert api.build(SOFTMAX, tuning=path).files == api.build(SOFTMAX).files


@pytest.mark.parametrize("graph", [SOFTMAX, SUMS], ids=["softmax", "sums"])
@every_template()
def test_candidates_are_legal_and_the_best_come_first(graph: Any) -> None:
    built, sizes, costs = api.build(graph), {"rows": 777}, Costs(CHIP)
    found = candidates(built.schedule, costs, sizes, 5)
    cycles = [given_cycles(t, built.schedule, costs, sizes) for t in found]
    assert not any(isinstance(c, str) for c in cycles)
    assert cycles == sorted(cycles)  # type: ignore[type-var]
    assert len({t.groups for t in found}) == len(found)
    chosen = choose(built.schedule, costs, sizes)
    assert chosen is not None
    names = {i.name for r in built.schedule for g in r.groups for i in g.impls}
    legal = {g.template for t in found for g in t.groups}
    assert legal <= names
    assert len(legal) > 1
