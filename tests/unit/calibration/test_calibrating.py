"""From a bundle and results to a target file, on times that the model of a hidden chip gives."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from calibration_bundles import TARGET, bundle, hidden

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.measure.bench.results import Measurement
from autofuse.measure.calibration.calibrating import LEAST_KERNELS, Calibration, calibrate
from autofuse.measure.calibration.cases import Case
from autofuse.measure.calibration.graphs import graph_model
from autofuse.measure.calibration.programs import program_of
from autofuse.results import BuildResult
from autofuse.targets import read_target

GRAPH = {
    "schema": "autofuse.graph/1",
    "name": "g",
    "symbols": {"rows": {"min": 1, "max": 100000}},
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["rows", 96]}],
    "nodes": [{"name": "n", "op": "Exp", "inputs": ["x"], "outputs": ["y"]}],
    "outputs": ["y"],
}


@lru_cache(maxsize=2)
def found(fake: bool = False) -> Calibration:
    return calibrate(bundle(fake=fake), TARGET)


def test_the_figures_of_the_hidden_chip_are_found() -> None:
    wanted = hidden()[1]
    off = {e.figure.name: e.value / wanted[e.figure.name] - 1 for e in found().fit.fitted}
    assert len(off) >= 15
    assert {n: o for n, o in off.items() if abs(o) > 0.05} == {}
    assert {"kernel_head_us", "sync_all", "model.read_gbs", "vector.exp.rate32"} <= off.keys()
    assert found().median(found().fit.held_out) < 0.03 < found().median(found().fit.before)


def test_the_file_is_the_target(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(found().text, encoding="utf-8")
    read = read_target(path)
    assert read == found().target
    assert (read.name, read.base) == ("ascend910b2_calibrated", "ascend910b2")
    new = {f.name: f for f in read.figures()}
    for e in found().fit.estimates:
        f = new[e.figure.name]
        if e.why is None:
            assert f.status == "fitted"
            assert f"{e.kernels} kernels on Ascend910B2, CANN 8.5.0" in f.source
        else:
            assert f == e.figure
            assert f"#   {f.name} = {f.value}: {e.why}" in found().text
    assert 'chip = "Ascend910B2"' in found().text
    assert "FAKE" not in found().text


def test_a_fake_says_so_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(found(True).text, encoding="utf-8")
    assert read_target(path).name == "ascend910b2_fake"
    sources = {e.figure.name for e in found(True).fit.fitted}
    figures = [f for f in read_target(path).figures() if f.name in sources]
    assert all(f.status == "modelled" and "fake CANN, no chip" in f.source for f in figures)
    renamed = found(True).text.replace("ascend910b2_fake", "ascend910b2_chip")
    path.write_text(renamed, encoding="utf-8")
    with pytest.raises(AutofuseError, match="does not say so"):
        read_target(path)


def test_a_cost_that_the_model_lacks_is_reported_and_spoils_nothing_else() -> None:
    # Loads of all cores take longer, by a part that no figure has.
    def more(c: Case) -> float:
        return 7.0 if c.name.startswith(("copy.", "load.hint")) else 0.0

    seen = calibrate(bundle(more=more), TARGET)
    assert {k.name for k in seen.kinds if k.lacking} >= {"copy"}
    copy = next(k for k in seen.kinds if k.name == "copy")
    assert copy.bias < -0.1
    wanted = hidden()[1]
    off = {e.figure.name: e.value / wanted[e.figure.name] - 1 for e in seen.fit.fitted}
    assert {n: o for n, o in off.items() if abs(o) > 0.05} == {}


def test_a_cost_of_a_tensor_is_reported() -> None:
    """The cost that the fake CANN has and the model lacks; kernels with three tensors or more have it."""

    def more(c: Case) -> float:
        return 0.35 * max(0, len(program_of(c.program).inputs) + 1 - 2)

    seen = calibrate(bundle(more=more), TARGET)
    assert [k.name for k in seen.kinds if k.lacking] == ["tensors"]
    (kind,) = (k for k in seen.kinds if k.name == "tensors")
    assert -0.5 < kind.bias < -0.3
    assert kind.held_out > 0.3
    assert "tensors" not in {k.name for k in calibrate(bundle(), TARGET).kinds if k.lacking}


def test_kept_figures_stay() -> None:
    seen = calibrate(bundle(), TARGET, keep=("modelled", "assumed"))
    assert {e.figure.status for e in seen.fit.estimates} == {"measured", "vendor", "fitted"}
    new = {f.name: f for f in seen.target.figures()}
    kept = [f for f in TARGET.figures() if f.status in ("modelled", "assumed")]
    assert "sync_all" in {f.name for f in kept}
    assert all(f == new[f.name] for f in kept)


def test_too_little_is_refused() -> None:
    few = bundle(only=lambda c: c.name.startswith("start."))
    assert 0 < len(few.calibration) < LEAST_KERNELS
    with pytest.raises(AutofuseError, match="AF5014") as caught:
        calibrate(few, TARGET)
    assert f"a fit needs {LEAST_KERNELS}" in str(caught.value)
    with pytest.raises(AutofuseError, match="1 fewer than 3 times") as caught:
        calibrate(bundle(only=lambda c: c.name.startswith("sync.c2.x1"), repeats=2), TARGET)
    with pytest.raises(AutofuseError, match="0 kernels were measured"):
        calibrate(bundle(calibration=[]), TARGET)


def test_what_cannot_be_used_is_counted() -> None:
    rows = [r.model_dump() for r in bundle().calibration]
    rows[0] |= {"program": "of_another_version"}
    rows[1] |= {"parameters": {"cores": 1 << 40}}
    rows[2] |= {"state": "timeout", "code": "AF5012", "times_us": []}
    seen = calibrate(bundle(calibration=rows), TARGET)
    assert seen.left_out == {
        "this version has no such kernel, or not with these sizes": 2,
        "state timeout": 1,
    }


def test_times_of_no_chip_are_refused_or_give_a_file_that_can_be_read(tmp_path: Path) -> None:
    rows = [r.model_dump() for r in bundle().calibration]
    with pytest.raises(AutofuseError, match="determine no figure"):
        calibrate(bundle(calibration=[r | {"times_us": [9e7] * 5} for r in rows]), TARGET)
    for factor in (1e-3, 300.0):
        odd = [
            r | {"times_us": [t * factor for t in r["times_us"]]} if r["case"][:4] == "sync" else r
            for r in rows
        ]
        seen = calibrate(bundle(calibration=odd), TARGET)
        path = tmp_path / "mine.toml"
        path.write_text(seen.text, encoding="utf-8")
        assert read_target(path) == seen.target


def test_the_clock_of_the_chip_is_taken_and_checked() -> None:
    slow = calibrate(bundle(chip={"soc": "Ascend910B2", "clock_mhz": 1800}), TARGET)
    assert slow.target.clock_mhz == 1800
    assert "clock_mhz = { value = 1800" in slow.text
    assert any("1800 MHz" in n for n in slow.notes)
    with pytest.raises(AutofuseError, match="AF1403"):
        calibrate(bundle(chip={"soc": "Ascend910B2", "clock_mhz": 100}), TARGET)


def test_another_chip_is_noted() -> None:
    seen = calibrate(bundle(chip={"soc": "Ascend910B4"}, complete=False), TARGET)
    assert any("measured on Ascend910B4" in n for n in seen.notes)
    assert any("part of the kit" in n for n in seen.notes)


def test_a_calibrated_target_is_calibrated_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(found().text, encoding="utf-8")
    only = bundle(only=lambda c: c.name.startswith(("start.", "sync.")))
    again = calibrate(only, read_target(path), name="again")
    assert again.target.base == "ascend910b2"
    # What the second bundle does not tell is as the first one told it.
    assert again.target.model.read_gbs == found().target.model.read_gbs
    path.write_text(again.text, encoding="utf-8")
    assert read_target(path) == again.target


@lru_cache(maxsize=1)
def built() -> BuildResult:
    return api.build(GRAPH, target=TARGET)


def measured(rows: int, **changes: object) -> Measurement:
    model = graph_model(built(), {"rows": rows}, None)
    assert model is not None
    us = model[1](hidden()[0])
    device = {"kind": "npu", "chip": "Ascend910B2", "fake": False, "cann": "8.5.0"}
    kernel = {
        "name": "g",
        "target": "ascend910b2",
        "graph_sha256": None,
        "kernel_sha256": built().metadata["sha256"],
    }
    value = {
        "origin": "bench",
        "generator": "autofuse 1.0",
        "device": device,
        "kernel": kernel,
        "sizes": {"rows": rows},
        "l2": "clear",
        "method": "events",
        "times_us": [us] * 5,
    }
    return Measurement.model_validate({**value, **changes})


def test_results_of_graphs_are_fitted_with_the_kernels_of_the_bundle() -> None:
    records = [measured(n) for n in (1000, 30_000, 100_000)]
    records.append(measured(500, device={"kind": "npu", "chip": "Ascend910B4", "fake": False}))
    records.append(measured(501, device={"kind": "npu", "chip": "Ascend910B2", "fake": True}))
    records.append(measured(502, sizes={"rows": 1 << 40}))
    records.append(measured(503, kernel={**records[0].kernel.model_dump(), "edited": True}))
    builds = {str(built().metadata["sha256"]): built()}
    seen = calibrate(bundle(), TARGET, records=records, builds=builds)
    graphs = next(k for k in seen.kinds if k.name == "graphs")
    assert graphs.kernels == 3
    assert graphs.after < 0.05
    assert sum(seen.left_out.values()) == 4
    assert calibrate(bundle(), TARGET, records=records[:1]).left_out == {
        "none of the graphs produces this kernel (--graphs DIR)": 1
    }
