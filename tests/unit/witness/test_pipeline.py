"""The model on a card without a card: invented times, of which the tables have to make what they were invented from."""

import json
import random
from types import SimpleNamespace

import packed
import pipeline
import pipeline_kernels
import pipeline_table
import pytest

from autofuse.machines.twin.oracle.oracle import evaluate as reference_of
from autofuse.machines.twin.run.compile import QUICK, compile_kernel
from autofuse.machines.twin.run.native import KernelLibrary, Tiling
from autofuse.measure.calibration.cases import calibration_cases
from autofuse.schedule.search.candidates import searched
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.given import GivenTiling

NAMES = ("abs", "abs_single", "softmax", "softmax_single", "add_row", "add_row_single")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """A few of the graphs."""
    some = [s for s in pipeline_kernels.subjects() if s.name in NAMES]
    monkeypatch.setattr(pipeline_kernels, "subjects", lambda: some)
    monkeypatch.setattr(pipeline_table, "subjects", lambda: some)
    return {s.name: s for s in some}


def _rows(few):
    """Rows as of a card, without times."""
    cases = calibration_cases(pipeline_kernels.machine())
    rows = [{"micro": c.name, "sizes": dict(c.parameters)} for c in cases]
    for name in NAMES:
        of = few[name.removesuffix("_single")]
        built, other = few[name].build(), of.build()
        for sizes in of.sizes():
            given = pipeline_kernels.tilings_of(other, sizes, of.name)
            if few[name].single:
                given = pipeline_kernels.single_like(built, given, sizes)
            for t in given:
                groups = [[g.template, g.tile, g.cores] for g in t.groups]
                rows.append({"case": name, "sizes": sizes, "groups": groups, "cores": 132})
    return [{**r, "card": "invented", "us": [1.0]} for r in rows]


@pytest.mark.slow
def test_tables_find_the_machine_that_made_the_times(few):
    """Times are those of the model with other figures, and noise: the fit finds them, and errors are the noise."""
    chip = pipeline_kernels.with_lines_of_a_card(pipeline_kernels.machine())
    random_ = random.Random(3)
    changed = {n: getattr(chip.model, n.split(".")[1]) for n in ("model.vector_gap", "model.row")}
    hidden = chip.with_values({n: 1.7 * v for n, v in changed.items()} | {"kernel_head_us": 8.0})
    rows = _rows(few)
    parts = iter([k.parts for k in pipeline_table.kernels_of(rows)])
    cases = {c.name: c for c in calibration_cases(pipeline_kernels.machine())}
    for r in rows:
        micro = "micro" in r
        of = (
            [cases[r["micro"]].model_us(hidden)]
            if micro
            else [p.cost(hidden).total for p in next(parts)]
        )
        us = sum(of)
        r["us"] = [us * random_.uniform(0.99, 1.01) for _ in range(5)]
    text = pipeline_table.tables(rows)
    assert f"{len(rows) - len(cases)} kernels of 3 graphs" in text
    figures = dict(
        x.split(" | ")[:2] for x in text.replace("| ", "", 1).split("\n| ") if " | " in x
    )
    assert abs(float(figures["kernel_head_us"]) / 8.0 - 1) < 0.01
    assert abs(float(figures["model.vector_gap"]) / hidden.model.vector_gap - 1) < 0.1
    errors = [x.split(" | ") for x in text.splitlines() if x.startswith("| all | 3 |")]
    assert float(errors[0][3]) < 0.02
    chosen = next(x for x in text.splitlines() if x.startswith("| the model, figures of the card"))
    assert float(chosen.split(" | ")[2]) < 1.03


@pytest.mark.twin
def test_tilings_are_those_that_the_host_function_fills_in(few, cache_dir):
    del cache_dir
    subject = few["softmax_single"]
    built = subject.build()
    library = KernelLibrary(compile_kernel(built.files, built.graph.name, opt=QUICK))
    for sizes in subject.sizes():
        groups = searched(built.schedule[0], Costs(pipeline_kernels.machine()), sizes)
        given = pipeline_kernels.packed_tiling(built, GivenTiling({}, groups), sizes)
        assert given == library.tiling([sizes[s.name] for s in built.graph.symbols])


def test_single_buffers_are_single(few):
    plans = [
        i.buffers for r in few["abs_single"].build().schedule for g in r.groups for i in g.impls
    ]
    assert {b.buf_num for p in plans for b in p} == {1}
    plans = [i.buffers for r in few["abs"].build().schedule for g in r.groups for i in g.impls]
    assert 2 in {b.buf_num for p in plans for b in p}


def test_rows_of_a_run_say_what_is_wrong_and_a_run_goes_on(few, tmp_path, monkeypatch):
    """The card is a function: it is right but once."""
    built = few["abs"].build()
    sizes = {"n": 1000}
    runs = [packed.PackedRun(sizes, k, 0, Tiling(b"", 0, 1), "", {}) for k in range(3)]
    packed.write_case(tmp_path, packed.PackedCase("abs", built.graph, {}, 3, runs))
    (tmp_path / "plan.json").write_text(json.dumps({"abs": [{"sizes": sizes, "groups": []}] * 3}))

    class Card:
        card = SimpleNamespace(name="a card")

        def run(self, inputs, *, symbols, key):
            found = reference_of(built.graph, inputs, symbols)
            outputs = {n: v.value + (key == 1) for n, v in found.items()}
            return SimpleNamespace(outputs=outputs)

        def time(self, inputs, *, warm_up, repeats, clear, symbols, key):
            return [2.0, 3.0]

    monkeypatch.setattr(
        pipeline,
        "kernel_of",
        lambda folder, name, device: (SimpleNamespace(graph=built.graph), Card()),
    )
    out = tmp_path / "out"
    out.mkdir()
    pipeline.write_row(out, {"case": "abs", "run": 0, "us": [1.0]})
    pipeline.serve(tmp_path, out, 0, "0/1", 60.0)
    rows = pipeline.read_rows(out)
    assert [(r["run"], r["us"], r.get("wrong", False)) for r in rows] == [
        (0, [1.0], False),
        (1, [2.0, 3.0], True),
        (2, [2.0, 3.0], False),
    ]
