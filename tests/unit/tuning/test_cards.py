"""Blocks of Triton kernels for a card that is played by a function of its own, which differs from the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.triton.candidates import neighbours, planned
from autofuse.codegen.backends.triton.plan import plan
from autofuse.frontends.tuning import read_tuning
from autofuse.measure.tuning.contest import Candidate, Samples, Sizes
from autofuse.measure.tuning.tune import Options, tune_card
from autofuse.targets import load_gpu

CARD = load_gpu("nvidia-h100")


def _graph(rows: int | str = 4096, cols: int = 1000) -> Mapping[str, object]:
    symbols = {"symbols": {"rows": {"min": 1, "max": 1 << 20}}} if isinstance(rows, str) else {}
    return {
        "schema": "autofuse.graph/1",
        "name": "soft",
        **symbols,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [rows, cols]}],
        "nodes": [
            {
                "name": "n",
                "op": "Softmax",
                "inputs": ["x"],
                "outputs": ["y"],
                "attrs": {"axis": -1},
            }
        ],
        "outputs": ["y"],
    }


class Played:
    """A card that likes two warps, and eight rows in a block."""

    measures = True
    facts: Mapping[str, str] = {"device": "played"}

    def run(self, candidates: Sequence[Candidate], sizes: Sizes, rounds: int) -> list[Samples]:
        return [Samples((self._us(c),) * rounds) for c in candidates]

    @staticmethod
    def _us(c: Candidate) -> float:
        b = c.payload.program.kernels[0].blocks
        return 100.0 + 10 * abs(b.warps.bit_length() - 2) + 10 * abs(b.rows.bit_length() - 4)


def test_it_finds_what_the_card_likes_and_the_file_is_taken(tmp_path: object) -> None:
    graph = api.read(_graph())
    found = tune_card(graph, CARD, [{}], Options(), [Played()])
    row = found.rows[0]
    assert row["winner"] is not None
    assert row["us"] == [100.0]
    assert found.status == "measured"
    path = tmp_path / "t.json"  # type: ignore[operator]
    path.write_text(found.text)
    tuning = read_tuning(path)
    assert (tuning.times[0].us, tuning.times[0].status) == (100.0, "measured")
    assert tuning.times[0].default_us > 100.0
    built = api.build(graph, target=CARD, tuning=path)
    blocks = plan(built.graph, built.hint, CARD, tuning).kernels[0].blocks
    assert blocks is not None
    assert (blocks.rows, blocks.warps) == (8, 2)


def test_a_default_that_stays_gives_a_file_that_changes_nothing(tmp_path: object) -> None:
    graph = api.read(_graph())
    found = tune_card(graph, CARD, [{}], Options())
    assert found.status == "modelled"
    assert found.rows[0]["winner"] is None
    path = tmp_path / "t.json"  # type: ignore[operator]
    path.write_text(found.text)
    assert read_tuning(path).kernels == ()
    tuned, plain = (api.build(graph, target=CARD, tuning=t).files for t in (path, None))
    assert tuned == plain


def test_neighbours_are_plans_of_their_own() -> None:
    graph = api.read(_graph())
    hint = api.hint_of(graph, target=CARD)
    start = planned(graph, hint, CARD, [{}])
    found = neighbours(start, start.tuning.kernels[0].name, hint, CARD, [{}])
    texts = [p.tuning.text() for p in found]
    assert len({*texts, start.tuning.text()}) == len(found) + 1
    assert [p.us for p in found] == sorted(p.us for p in found)
    sizes = [p.tuning.kernels[0].sizes for p in found]
    assert len({s["warps"] for s in sizes}) > 3
    assert len({s["rows"] for s in sizes}) > 3


def test_kernels_that_follow_fit_what_comes_before() -> None:
    graph = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "total",
            "inputs": [{"name": "x", "dtype": "float16", "shape": [64, 262144]}],
            "nodes": [
                {
                    "name": "n",
                    "op": "ReduceSum",
                    "inputs": ["x"],
                    "outputs": ["y"],
                    "attrs": {"axes": [1]},
                }
            ],
            "outputs": ["y"],
        }
    )
    hint = api.hint_of(graph, target=CARD)
    start = planned(graph, hint, CARD, [{}])
    assert len(start.tuning.kernels) == 2
    found = neighbours(start, start.tuning.kernels[0].name, hint, CARD, [{}])
    chunks = {p.tuning.kernels[0].sizes["chunks"] for p in found}
    assert len(chunks) > 3


def test_rows_and_columns_that_are_symbols_cannot_be_tuned() -> None:
    graph = api.read(_graph("rows", 1000))
    found = tune_card(graph, CARD, [{"rows": 512}, {"rows": 1 << 16}], Options(), [Played()])
    assert found.rows[0]["shapes"] == [{"rows": 512}, {"rows": 1 << 16}]
    both = dict(_graph("rows", 1000))
    both["symbols"] = {k: {"min": 1, "max": 1 << 15} for k in ("rows", "cols")}
    both["inputs"] = [{"name": "x", "dtype": "float32", "shape": ["rows", "cols"]}]
    with pytest.raises(AutofuseError, match="at these sizes choose their blocks") as e:
        tune_card(api.read(both), CARD, [{"rows": 8, "cols": 8}], Options(), [Played()])
    assert e.value.diagnostics[0].code == "AF5007"


def test_devices_of_two_kinds_are_refused() -> None:
    other = Played()
    other.facts = {"device": "another"}
    with pytest.raises(AutofuseError, match="different kinds: another, played"):
        tune_card(api.read(_graph()), CARD, [{}], Options(), [Played(), other])
