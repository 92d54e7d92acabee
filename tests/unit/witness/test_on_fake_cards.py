"""What runs on a card: kernels, measurements and tasks, where the twin stands in for the card."""

import ctypes
import json
from pathlib import Path

import campaign
import draws
import numpy as np
import pytest
from extras import needs
from fake_cards import fake_card
from rich.console import Console

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.commands.chip import measuring
from autofuse.implgraph.ir.serialise import to_json
from autofuse.machines.timing import Plan
from autofuse.measure.bench import runners
from autofuse.measure.bench.bench import Case, Row
from autofuse.measure.bench.job import measurement_of
from autofuse.measure.bench.measure import measure
from autofuse.measure.bench.results import KernelFacts
from autofuse.measure.bench.subjects import Choice, subject_of
from autofuse.report.text.chip.bench import STANDS_IN, print_bench

GRAPHS = Path(__file__).resolve().parents[2] / "snapshot" / "graphs"

pytestmark = pytest.mark.twin


@pytest.fixture
def card(monkeypatch, cache_dir):
    del cache_dir
    return fake_card(monkeypatch)


def spoilt(pointers):
    """The first bytes of the output of a kernel with one input."""
    ctypes.memset(pointers[1], 0x41, 4)


def test_a_kernel_gives_what_the_twin_gives_and_its_memory_back(card):
    built = api.build(GRAPHS / "reduce_rows.json")
    kernel = api.load(built, device="cuda:1")
    twin = api.load(built)
    (name,) = built.graph.inputs
    x = draws.rng().random((5, 96), np.float32)
    sizes = dict(zip([s.name for s in built.graph.symbols], x.shape, strict=False))
    given = {name: x.reshape([e.evaluate(sizes) for e in built.graph.tensors[name].shape])}
    for found, right in zip(
        kernel.run(given).outputs.values(), twin.run(given).outputs.values(), strict=True
    ):
        np.testing.assert_array_equal(found, right)
    assert kernel.time(given, warm_up=2, repeats=3) == [2.0] * 3
    assert len(card.launches) == 1 + 5
    assert not card.memory


def runner_of(name):
    built = api.build(GRAPHS / f"{name}.json")
    text = json.dumps({"files": dict(built.files), "graph": to_json(built.graph)})
    runners.runner_of.cache_clear()
    return runners.runner_of(text, "cuda:0", 60.0)


def test_times_of_a_card_say_whose_they_are(card):
    runner = runner_of("abs_test")
    sizes = {s.name: 100 for s in runner.graph.symbols}
    plan = Plan(warm_up=1, repeats=5)
    found = measure(runner, sizes, plan)
    assert found.compared.outputs == len(runner.graph.outputs)
    subject = subject_of(GRAPHS / "abs_test.json", api.DEFAULT_TARGET)
    record = measurement_of(
        found, runners.device_facts(runner.facts()), KernelFacts(**subject.facts()), sizes, plan
    )
    assert (record.device.kind, record.device.driver) == ("cuda", "CUDA 13.0")
    assert (record.method, record.kernel.target) == ("events", api.DEFAULT_TARGET)
    row = Row(Case(subject, sizes), "measured", "cuda:0", record, Choice(us=3.0))
    assert row.stands_in
    assert row.to_json()["modelled_us"] == 3.0
    assert row.to_json()["modelled_over_measured"] is None
    shown = measuring._found([row], [], [], plan, None)
    screen = Console(record=True, width=200)
    print_bench(screen, shown)
    text = screen.export_text()
    assert "GPU us" in text
    assert "measured us" not in text
    assert STANDS_IN in " ".join(text.split())


def test_a_kernel_that_is_wrong_on_a_card_has_no_time(card):
    runner = runner_of("abs_test")
    card.spoil = spoilt
    with pytest.raises(AutofuseError, match="differs from NumPy"):
        measure(runner, {s.name: 100 for s in runner.graph.symbols}, Plan(repeats=1))


@needs("torch")
@pytest.mark.parametrize("wrong", [False, True])
def test_tasks_are_compared_with_float64(card, tmp_path, monkeypatch, wrong):
    import tasks

    said = list(tasks.pack(tmp_path, ["23_Softmax", "100_Hinge"], api.DEFAULT_TARGET, tiny=True))
    assert len(said) == 2
    assert all("runs" in s for s in said)
    monkeypatch.setattr(tasks, "place_of", lambda device: "cpu")
    # Of the host functions nothing but what was packed is known; the twin has the rest from the sources.
    monkeypatch.setattr(
        "autofuse.machines.witness.kernel.compile_for_card",
        lambda files, name, capability: library_of(name, tmp_path),
    )
    card.spoil = spoilt if wrong else card.spoil
    rows = [campaign.run_case(tmp_path, n, 0) for n in ("23_Softmax", "100_HingeLoss")]
    text, ok = campaign.table(rows[:1] if wrong else rows)
    assert ok is not wrong, text
    assert ("WRONG 23_Softmax" in text) is wrong
    assert rows[0]["runs"][0]["outputs"][0]["peer"] < 4


def library_of(name, folder):
    """The library of a task for the twin."""
    import packed
    import tasks
    from competitors import graph_of
    from rows import rows
    from torch._subclasses import FakeTensorMode

    from autofuse.machines.twin.run.compile import QUICK, compile_kernel

    for task in tasks.about(folder)["orders"]:
        graph = packed.read_case(folder, task).graph
        if graph.name == name:
            (row,) = rows(("kernelbench",), [task])
            with FakeTensorMode():
                case = row.case("cpu", 1, True)
            built = api.build(graph_of(case)[0])
            if to_json(built.graph) == to_json(graph):
                return str(compile_kernel(built.files, name, opt=QUICK)).encode()
    raise AssertionError(name)
