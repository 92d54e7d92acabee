"""The kernel file: parameters, dispatch, groups one after another."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autofuse.codegen.backends.ascendc.backend import BACKEND
from autofuse.codegen.backends.interface import Job, generate
from autofuse.codegen.ir.kernel_ir import Parameters
from autofuse.codegen.lower.names import parameter_names
from autofuse.frontends import parse_graph
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule.axes.result import tiling_keys
from autofuse.schedule.scheduler import schedule
from autofuse.schedule.search.costs import Costs
from autofuse.targets import load_target

TARGET = load_target("ascend910b1")


def made(nodes, outputs, shape=("m", "n"), **more: Any):
    data = {
        "schema": "autofuse.graph/1",
        "name": "k",
        "symbols": {"m": {"min": 1, "max": 1 << 20}, "n": {"min": 1, "max": 4096}},
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": list(shape)},
            {"name": "b", "dtype": "float32", "shape": list(shape[-1:])},
        ],
        "nodes": [
            {"name": f"n{i}", "op": op, "inputs": xs, "outputs": [y]}
            for i, (y, op, xs) in enumerate(nodes)
        ],
        "outputs": outputs,
        **more,
    }
    graph = parse_graph(json.dumps(data))
    results = schedule(canonicalise(lower(graph)), TARGET)
    return graph, results


def kernel_file(graph, results):
    return generate(BACKEND, Job(graph, TARGET, Costs(TARGET)), results)["device/k_kernel.cpp"]


ADD = ([("y", "Add", ["x", "b"])], ["y"])


def test_parameters_are_inputs_then_outputs():
    graph, results = made(*ADD)
    assert parameter_names(graph) == Parameters(("x", "b"), ("y",))
    text = kernel_file(graph, results)
    head = text[text.index('extern "C"') :]
    places = [
        head.index(p) for p in (*parameter_names(graph).names, "workspace", "AutofuseTilingData")
    ]
    assert places == sorted(places)


def test_every_key_calls_its_template():
    graph, results = made(*ADD)
    text = kernel_file(graph, results)
    keys = tiling_keys(results)
    assert len(keys) > 1
    for number, (impl,) in enumerate(keys):
        branch = text.index(f"t.tiling_key == {number})")
        assert text.index(f"{impl.name}(", branch) > branch
        assert text.count(f"inline __aicore__ void {impl.name}(") == 1


def test_groups_run_one_after_another_without_waiting():
    graph, results = made([("y", "Exp", ["x"]), ("c", "Exp", ["b"])], ["y", "c"])
    assert len(results[0].groups) == 2
    text = kernel_file(graph, results)
    assert "SyncAll" not in text
    assert "KERNEL_TYPE_AIV_ONLY" in text


def test_group_that_overwrites_what_another_one_reads_waits_for_all_cores():
    outputs = [{"name": "y", "tensor": "y"}, {"name": "c", "tensor": "c", "inout": "b"}]
    graph, results = made([("y", "Add", ["x", "b"]), ("c", "Exp", ["b"])], outputs)
    text = kernel_file(graph, results)
    entry = text[text.index('extern "C"') :]
    assert "SyncAll();" in entry
    first, second = (g.impls[0].name for g in results[0].groups)
    assert entry.index(first) < entry.index("SyncAll") < entry.index(second)


@pytest.mark.parametrize("run", range(2))
def test_text_does_not_depend_on_the_run(run):
    graph, results = made(*ADD)
    again = made(*ADD)
    assert kernel_file(graph, results) == kernel_file(*again)
