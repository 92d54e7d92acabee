"""Lowering of random graphs with reductions, transposes, slices, concatenations and pads keeps what they mean."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from graph_strategies import Options, random_graph
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.check.verify import verify
from autofuse.implgraph.cutting.dimensions import bind, check_shapes, symbolize
from autofuse.implgraph.division.split_reductions import split_reductions
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph
from autofuse.implgraph.ir.group_order import group_order_hazards
from autofuse.implgraph.lowering.lowering import _lowered, lower, lower_all
from autofuse.implgraph.rewrites.decompose import decompose
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.implgraph.rewrites.recognise import recognise
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.oracle.oracle import Reference, evaluate
from autofuse.targets import load_target

OPTIONS = {"max_elements": 600, "max_ops": 9, "max_inputs": 4, "strides": False, "inout": False}


def memory(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).ravel()


def agree(got: np.ndarray, want: Reference) -> np.ndarray:
    """Where a result is as close to the reference as its tolerance demands."""
    have = np.asarray(got).reshape(want.value.shape)
    tolerance = np.zeros(have.shape) if want.tolerance is None else want.tolerance
    a, b = have.astype(np.float64), want.value.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= tolerance
    return near | (have == want.value) | (np.isnan(a) & np.isnan(b)) | np.isinf(tolerance)


def check(graph: FusionGraph, hint: HintGraph, seed: int, env: dict[str, int]) -> None:
    assert verify(hint) == []
    assert all(a < b for a, b in group_order_hazards(hint))
    inputs = random_inputs(graph, {}, seed)
    want = evaluate(graph, inputs, {})
    with np.errstate(all="ignore"):
        got = interpret(hint, [memory(inputs[n]) for n in graph.inputs], env)
    for output, value in zip(graph.outputs, got, strict=True):
        assert agree(value, want[output.name]).all(), output


@st.composite
def graphs(draw: st.DrawFn, dtypes: tuple[str, ...]) -> FusionGraph:
    rng = draw(st.randoms(use_true_random=False))
    options: Any = Options(**OPTIONS, moves=True, dtypes=dtypes)
    graph: FusionGraph = random_graph(rng, "g", options)
    return graph


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(("float32", "float16", "bfloat16", "int32", "bool")), st.integers(0, 99))
def test_meaning_survives(graph, seed):
    hint = lower(graph)
    check(graph, hint, seed, {})
    canonical = canonicalise(hint)
    check(graph, canonical, seed, {})
    assert canonicalise(canonical) == canonical
    assert lower(graph) == hint


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(("float32",)), st.integers(0, 99), st.randoms(use_true_random=False))
def test_any_tensor_may_pass_through_gm(graph, seed, rng):
    written = decompose(recognise(graph))
    made = [n.outputs[0] for n in written.nodes]
    assume(made)
    cuts = rng.sample(made, rng.randint(1, min(4, len(made))))
    check(graph, _lowered(written, True, cuts=cuts)[0], seed, {})


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(("float32", "int32")), st.integers(1, 4))
def test_symbols_keep_the_meaning(graph, limit):
    symbolic = symbolize(graph, limit)
    check_shapes(symbolic)
    env = {s.name: s.hint or 0 for s in symbolic.symbols}
    assert bind(symbolic, env) == graph
    check(graph, canonicalise(lower(symbolic)), 0, env)


# reductions that the cores share ---------------------------------------------------------------

#: Nothing costs anything but the elements.
EAGER = replace(
    load_target("ascend910b1"), aiv_cores=5, sync_all=0.0, load_head=0.0, store_head=0.0
)


@st.composite
def with_large_reductions(draw: st.DrawFn) -> FusionGraph:
    rng = draw(st.randoms(use_true_random=False))
    dtypes = ("float32", "float16", "int32", "bool")
    options: Any = Options(**OPTIONS, moves=True, dtypes=dtypes)
    found: FusionGraph | None = None
    for _ in range(8):
        graph: FusionGraph = random_graph(rng, "g", options)
        try:
            written = decompose(graph)
        except AutofuseError:
            continue  # a product of many 64-bit numbers
        found = graph
        if split_reductions(written, EAGER) is not written:
            break
    assume(found is not None)
    assert found is not None
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(with_large_reductions(), st.integers(0, 99))
def test_dividing_keeps_the_meaning(graph, seed):
    for hint in lower_all(graph, EAGER):
        check(graph, canonicalise(hint), seed, {})


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(with_large_reductions(), st.integers(1, 3))
def test_both_forms_mean_the_same(graph, limit):
    symbolic = symbolize(graph, limit)
    env = {s.name: s.hint or 0 for s in symbolic.symbols}
    # Without hints what is reduced may be long, and is divided.
    unknown = replace(symbolic, symbols=tuple(replace(s, hint=None) for s in symbolic.symbols))
    for hint in lower_all(unknown, EAGER):
        check(graph, canonicalise(hint), 0, env)


def test_there_are_graphs_to_divide():
    """The strategy makes some: a test of nothing would always pass."""
    options: Any = Options(**OPTIONS, moves=True, dtypes=("float32",))
    found = 0
    for seed in range(150):
        written = decompose(random_graph(Random(seed), "g", options))
        found += split_reductions(written, EAGER) is not written
    assert found >= 5
