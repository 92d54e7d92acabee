"""``autofuse tune`` on the fake CANN: a chip that wants something else than the model says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calibration_bundles import TARGET, bundle
from fake_canns import FakeCann

from autofuse.commands.chip.trials import tune
from autofuse.measure.calibration.bundle import bundle_bytes
from autofuse.measure.tuning.store_format import read_records

pytestmark = [pytest.mark.twin, pytest.mark.slow]

GRAPH = {
    "schema": "autofuse.graph/1",
    "name": "exps",
    "symbols": {"rows": {"min": 1, "max": 100_000}},
    "inputs": [{"name": "x", "dtype": "float16", "shape": ["rows", 256]}],
    "nodes": [{"name": "n", "op": "Exp", "inputs": ["x"], "outputs": ["y"]}],
    "outputs": ["y"],
}
#: What it costs to start a core, in cycles: a chip of ours has 16, so that the model takes all the cores it can.
SLOW_START = '"model.core_start" = 400.0\n"hidden.tensor_us" = 0.35\n'


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "exps.json"
    path.write_text(json.dumps(GRAPH))
    return path


def test_it_finds_what_the_chip_prefers(
    autofuse: Callable, fake_cann: FakeCann, graph: Path, tmp_path: Path
) -> None:
    fake_cann.make(figures=SLOW_START)
    chip = ("-t", "ascend910b2", "--shape", "rows=512", "--top", "5", "--rounds", "5")
    words = (graph, *chip, "--device", "npu:0", "-o", "t.json", "--store", "store.jsonl")
    cann = {"ASCEND_HOME_PATH": str(fake_cann.root)}
    done = autofuse("tune", *words, "--json", **cann)
    assert done.code == 0, done.err
    found = done.json()["result"]
    assert found["status"] == "measured"
    assert found["devices"][0]["fake"] == "true"
    (contest,) = found["contests"]
    assert contest["winner"] is not None
    assert contest["gain"] > 0.1
    file = json.loads((tmp_path / "t.json").read_text())
    assert file["times"][0]["fake"] is True
    (group,) = file["tilings"][0]["groups"]
    # The model, which knows nothing of the slow start, is asked without and with the file.
    shown = autofuse(
        "explain", graph, *chip[:2], "--shape", "rows=512", "--tuning", "t.json", "--json"
    )
    explained = shown.json()["result"]
    (own,) = explained["tuned"]["groups"]
    usual = next(
        t for r in explained["results"] for g in r["groups"] for t in g["templates"] if t["chosen"]
    )
    assert own["cores"] == group["cores"] < usual["cores"]
    assert explained["tuned"]["total_us"] > explained["total_us"]
    # What was measured is not measured again.
    records = len(read_records(tmp_path / "store.jsonl"))
    again = autofuse("tune", *words, **cann)
    assert again.code == 0, again.err
    assert "the device is a stand-in for tests" in again.out
    assert len(read_records(tmp_path / "store.jsonl")) == records
    # The kernel with the table computes the same.
    ran = autofuse(
        "run", graph, *chip[:2], "--shape", "rows=512", "--tuning", "t.json", "--json"
    ).json()
    assert ran["ok"]
    assert ran["result"]["block_dim"] == group["cores"]


def test_a_chip_that_computes_something_else_is_no_default(
    autofuse: Callable, fake_cann: FakeCann, graph: Path
) -> None:
    fake_cann.make(fail=("wrong:exps",))
    done = autofuse(
        *("tune", graph, "-t", "ascend910b2", "--shape", "rows=64", "--device", "npu:0"),
        *("--rounds", "3", "-o", "t.json"),
        ASCEND_HOME_PATH=str(fake_cann.root),
    )
    assert done.code == 1
    assert "differ from NumPy" in done.err


def test_without_a_device_the_twin_predicts(autofuse: Callable, graph: Path) -> None:
    words = ("tune", graph, "--shape", "rows=96", "--top", "2", "-o", "t.json")
    done = autofuse(*words)
    assert done.code == 0, done.err
    assert "model predictions: nothing was measured" in done.out
    assert "us (model)" in done.out


def test_a_bundle_gives_the_model_its_figures(graph: Path, tmp_path: Path) -> None:
    """A chip that takes long to start a core, and one that does not; both in one store."""
    kit = ("start.", "sync.c48", "load.memory", "load.one")
    tuned: dict[str, Any] = {}
    for name, cycles in (("slow", 400), ("usual", 0)):
        measured = bundle(
            fake=True,
            only=lambda c: c.name.startswith(kit),
            more=lambda c, n=cycles: n * c.parameters["cores"] / TARGET.clock_mhz,
        )
        source = tmp_path / f"{name}.json"
        source.write_bytes(bundle_bytes(measured, packed=False))
        tuned[name] = tune(
            graph,
            tmp_path / f"{name}.tuning.json",
            shapes=["rows=512"],
            target="ascend910b2",
            device="cpu",
            budget=None,
            top=2,
            rounds=3,
            seed=0,
            store=tmp_path / "store.jsonl",
            bundle=source,
            quiet=True,
        ).result
    slow, usual = (tuned[n]["contests"][0] for n in ("slow", "usual"))
    assert slow["winner"] is not None
    assert usual["winner"] is None
    assert slow["default_us"][0] > 1.5 * usual["default_us"][0]
    # What one bundle predicts is not taken for what the other does.
    assert len({r.context for r in read_records(tmp_path / "store.jsonl")}) == 2
    (device,) = tuned["slow"]["devices"]
    assert device["device"] == "model of ascend910b2_fake, in the twin's timed mode"
    (times,) = json.loads((tmp_path / "slow.tuning.json").read_text())["times"]
    assert (times["status"], times["fake"]) == ("modelled", True)


def test_what_cannot_be(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}\n")
    for words, text in (
        (("--device", "cuda:0"), "kernels for ascend910b1 do not run on cuda:0"),
        (("--device", "npu:0", "-t", "nvidia-h100"), "do not run on npu:0"),
        (("-t", "cpu"), "cpu cannot be tuned"),
        (("--device", "card"), "AF5007"),
        (("--device", "npu:0", "--bundle", "b.json"), "leave out --bundle, or --device"),
        (("--scheduler", "tcp://host:8786"), "--scheduler is for devices"),
        (("--shape", "rows=9..4"), "the first size must be the smaller one"),
        (("--shape", "lines=9"), "unknown symbol 'lines'"),
        (("--store", "other.json"), "AF1004"),
        (("-o", graph), "would overwrite the graph"),
    ):
        done = autofuse("tune", graph, *words)
        assert done.code == 1, words
        assert text in done.err.replace("\n", " "), words
