"""NumPy computes the graphs of the ONNX standard's node tests, for every case that has kernels.

The tests compile nothing, so they take all cases; ``test_suite.py`` runs a sample as kernels.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from extras import required

pytestmark = [required("onnx")]

import onnx
from pages.onnx_page import KERNEL

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.onnx.backend import suite
from autofuse.frontends import parse_graph
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.oracle import evaluate

#: Cases with constants that only a build computes.
UNKNOWN = ("test_blackmanwindow", "test_hammingwindow", "test_hannwindow")
#: Besides the case's own tolerance: its results are of float32, ours of float64.
ABSOLUTE = 1e-6

NAMES = sorted(
    name
    for op in json.loads(Path(__file__).with_name("outcomes.json").read_text())["cases"].values()
    for name in op.get(KERNEL, ())
)


def array(x: Any) -> Any:
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x)


def graph_of(model: Any, given: Mapping[str, Any]) -> FusionGraph | None:
    """Return the graph of a model, with scalars and lists of integers as initializers where a converter needs them.

    Return None if the reader refuses the model, or if only a build computes the elements of an initializer.
    """
    scalars = {n: x for n, x in given.items() if x.ndim == 0}
    lists = {n: x for n, x in given.items() if x.ndim == 1 and x.dtype.kind in "iu"}
    for known in ({}, scalars, scalars | lists):
        full = onnx.ModelProto()
        full.CopyFrom(model)
        full.graph.initializer.extend(
            onnx.numpy_helper.from_array(x, name) for name, x in known.items()
        )
        try:
            graph = parse_graph(full.SerializeToString(), path="m.onnx")
        except AutofuseError:
            continue
        if set(graph.inputs) <= given.keys() - known.keys():
            return graph
    return None


def without_defaults(model: Any) -> Any:
    """Return the model without attributes that have their default, or None if no attribute has it."""
    short = onnx.ModelProto()
    short.CopyFrom(model)
    versions = {o.domain: o.version for o in model.opset_import}
    left_out = 0
    for node in short.graph.node:
        try:
            schema = onnx.defs.get_schema(node.op_type, versions[node.domain], node.domain)
        except (onnx.defs.SchemaError, KeyError):
            continue
        for attr in list(node.attribute):
            known = schema.attributes.get(attr.name)
            if known is not None and known.default_value.SerializeToString() == (
                attr.SerializeToString()
            ):
                node.attribute.remove(attr)
                left_out += 1
    return short if left_out else None


def computed(case: Any, model: Any) -> list[tuple[Any, Any]]:
    """Return (result, expected) for every output of a case, or an empty list without a graph."""
    found = []
    for inputs, outputs in case.data_sets:
        names = (x.name for x in model.graph.input)
        given = {n: array(x) for n, x in zip(names, inputs, strict=False)}
        graph = graph_of(model, given)
        if graph is None:
            return []
        # A reshape of an input is its shape in the graph.
        shapes = {t: [n.value for n in graph.tensors[t].shape] for t in graph.inputs}
        data = {t: given[t].reshape(shape) for t, shape in shapes.items()}
        results = evaluate(graph, data, {}).values()
        found += zip((r.value for r in results), map(array, outputs), strict=True)
    return found


def differences(name: str, case: Any, model: Any) -> list[str]:
    pairs = computed(case, model)
    out = [] if pairs or name.startswith(UNKNOWN) else [f"{name}: no graph"]
    for have, want in pairs:
        close = {"rtol": case.rtol, "atol": max(case.atol, ABSOLUTE), "equal_nan": True}
        a, b = (np.asarray(x, np.float64) for x in (have, want))
        if a.shape != b.shape or not np.allclose(a, b, **close):
            out.append(f"{name}: {a.tolist()} is not {b.tolist()}"[:300])
    return out


def test_graphs_of_all_cases_compute_what_the_standard_says() -> None:
    cases = {n: c for n in NAMES if (c := suite._cases().get(n)) is not None}
    assert len(cases) > 900
    wrong = [d for n, c in cases.items() for d in differences(n, c, c.model)]
    assert not wrong, "\n".join(wrong)


def test_an_attribute_that_has_its_default_may_be_left_out() -> None:
    tried, wrong = 0, []
    for name in NAMES:
        case = suite._cases().get(name)
        short = None if case is None else without_defaults(case.model)
        if short is not None:
            tried += 1
            wrong += differences(name, case, short)
    assert tried > 100
    assert not wrong, "\n".join(wrong)
