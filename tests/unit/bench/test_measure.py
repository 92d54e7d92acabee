"""A measurement: a wrong kernel has no time, and what runs is what was compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.gpu.timer import facts_of
from autofuse.machines.timing import Plan, Samples
from autofuse.measure.bench.devices import BenchDevice, alone, parse_devices
from autofuse.measure.bench.job import measurement_of
from autofuse.measure.bench.measure import measure
from autofuse.measure.bench.results import DeviceFacts, KernelFacts, parse_results, results_text
from autofuse.measure.bench.runners import device_facts, version_text
from autofuse.results import Run

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
KERNEL = KernelFacts(name="shift", target="ascend910b1", graph_sha256=None, kernel_sha256=None)
DEVICE = DeviceFacts(kind="npu", chip="Ascend910B1", fake=True)


class Standing:
    """A device that computes with NumPy, after what ``change`` does to its output."""

    def __init__(
        self, change: Callable[[Any, int], None] = lambda y, poison: None, us: float = 5.0
    ) -> None:
        self.change, self.us, self.log = change, us, list[str]()

    @property
    def graph(self) -> FusionGraph:
        return GRAPH

    def facts(self) -> DeviceFacts:
        return DEVICE

    def run(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], poison: int) -> Run:
        self.log.append("run")
        y = inputs["x"] + np.float32(1)
        self.change(y, poison)
        return Run({"y": y}, dict(sizes), key=2, block_dim=7, workspace=0)

    def time(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], plan: Plan) -> Samples:
        self.log.append("time")
        assert inputs["x"].shape == (sizes["n"], 4)
        return Samples([self.us] * plan.repeats, "events", {"aiv_vec_ratio": 0.5})


def test_what_is_right_is_compared_and_then_timed() -> None:
    device = Standing()
    plan = Plan(repeats=3, l2="clear")
    found = measure(device, {"n": 10}, plan)
    assert device.log == ["run", "run", "time"]
    assert (found.key, found.cores, list(found.samples.us)) == (2, 7, [5.0] * 3)
    assert (found.compared.outputs, found.compared.elements) == (1, 40)
    record = measurement_of(found, DEVICE, KERNEL, {"n": 10}, plan)
    assert parse_results(results_text([record])) == (record,)
    assert (record.l2, record.warm_up, record.counters) == ("clear", 10, {"aiv_vec_ratio": 0.5})


def test_a_wrong_kernel_has_no_time() -> None:
    def off_by_one(y: Any, poison: int) -> None:
        y[3, 1] += 1

    device = Standing(off_by_one)
    with pytest.raises(AutofuseError) as e:
        measure(device, {"n": 10}, Plan())
    (d,) = e.value.diagnostics
    assert (d.code, "time" in device.log) == ("AF6001", False)
    assert "1 of 40 elements" in d.message
    assert "(3, 1)" in d.notes[0]


def test_an_element_that_nobody_wrote_is_found() -> None:
    def left(y: Any, poison: int) -> None:
        y.reshape(-1).view(np.uint8)[-4:] = poison

    with pytest.raises(AutofuseError) as e:
        measure(Standing(left), {"n": 10}, Plan())
    assert e.value.diagnostics[0].code == "AF6002"


def test_a_device_without_a_clock_gives_no_time() -> None:
    with pytest.raises(AutofuseError, match="AF5003"):
        measure(Standing(us=0.0), {"n": 10}, Plan())


def test_devices_by_their_words() -> None:
    assert parse_devices("npu") == (BenchDevice("npu", 0),)
    assert [str(d) for d in parse_devices("npu:0,3")] == ["npu:0", "npu:3"]
    assert parse_devices("cuda:1") == (BenchDevice("cuda", 1),)
    for wrong in ("", "cpu", "npu:", "npu:0,0", "npu:-1", "cuda:0;ls", "npu:100", "npu:00"):
        with pytest.raises(AutofuseError, match="AF5007"):
            parse_devices(wrong)


def test_a_device_is_held_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    with alone("npu:5"), alone("npu:6"):
        held = []
        monkeypatch.setattr(fcntl, "flock", lambda fd, how: held.append(how))
        with alone("npu:7"):
            assert held == [fcntl.LOCK_EX]


def test_facts_of_a_card_name_no_machine() -> None:
    found = facts_of(
        {
            "device": "NVIDIA H100 80GB HBM3",
            "torch": "2.11.0+cu130",
            "triton": "3.6.0",
            "cuda": "13.0",
            "python": "3.12.3",
            "driver_version": "580.159.04",
            "clocks.sm": "1980",
            "clocks.mem": "[N/A]",
            "power.limit": "700.00",
            "when": "2026-11-27T21:00:00+00:00",
        }
    )
    facts = device_facts(found)
    assert facts.chip == "NVIDIA H100 80GB HBM3"
    assert facts.clocks_mhz == {"sm": 1980.0}
    assert facts.versions["torch"] == "2.11.0+cu130"
    assert (facts.fake, facts.driver) == (False, "580.159.04")
    assert version_text("a/b\x1b[0m") == "a_b__0m"
    assert version_text("") is None
    assert version_text("///") is None
