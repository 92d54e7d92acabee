"""Cutting graphs: parts in sequence compute what the whole computes, and the search finds the best split."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random

import graph_strategies
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.cutting.cut import INPUT, OUTPUT, Cutter, Split
from autofuse.implgraph.cutting.dimensions import check_shapes, symbolize
from autofuse.implgraph.cutting.split import MAX_CHECKS, Uncut, find_split
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.oracle.oracle import evaluate
from autofuse.machines.twin.oracle.sizes import shapes_for
from autofuse.targets import load_target

RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
seeds = st.integers(0, 1 << 62)


def graph_of(rng: Random, max_ops: int = 24, max_elements: int = 2000) -> FusionGraph:
    """A random graph of every kind of op, with in-out outputs, strides and symbols."""
    options = graph_strategies.Options(
        max_elements=max_elements, max_ops=max_ops, moves=rng.random() < 0.5
    )
    graph: FusionGraph = graph_strategies.random_graph(rng, "g", options)
    return symbolize(graph, rng.choice((1, 3))) if rng.random() < 0.4 else graph


def ends_of(rng: Random, nodes: int) -> list[int]:
    """Random places to cut."""
    most = min(nodes - 1, 4)
    return [*sorted(rng.sample(range(1, nodes), rng.randint(0, most) if most > 0 else 0)), nodes]


def in_sequence(split: Split, inputs: dict[str, np.ndarray], symbols: dict[str, int]) -> dict:
    """The outputs of the whole where each part reads and writes memory as the driver makes it do."""
    memory = {(INPUT, i): inputs[name].copy() for i, name in enumerate(split.graph.inputs)}
    written: set[tuple[str, int]] = set()
    for part in split.parts:
        at = dict(zip(part.graph.inputs, part.sources, strict=True))
        given_ = {x: memory[p.kind, p.index] for x, p in at.items()}
        values = evaluate(part.graph, given_, {s.name: symbols[s.name] for s in part.graph.symbols})
        for o, p in zip(part.graph.outputs, part.targets, strict=True):
            place = (p.kind, p.index)
            assert place not in written
            written.add(place)
            memory[place] = values[o.name].value
            if o.inout is not None:
                home = at[o.inout]
                assert home.kind == INPUT
                memory[home.kind, home.index] = values[o.name].value.reshape(given_[o.inout].shape)
    return {o.name: memory[OUTPUT, k] for k, o in enumerate(split.graph.outputs)}


@settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=RELAXED)
@given(seeds)
def test_parts_in_sequence_are_the_whole(seed: int) -> None:
    rng = Random(seed)
    graph = graph_of(rng)
    cutter = Cutter(graph)
    if not cutter.nodes:
        return
    ends = ends_of(rng, len(cutter.nodes))
    split = cutter.split(ends)
    assert split == Cutter(graph).split(ends)
    assert [n for p in split.parts for n in p.graph.nodes] == list(cutter.nodes)
    assert split.cut_after == tuple(cutter.nodes[e - 1].name for e in ends[:-1])
    for part in split.parts:
        check_shapes(part.graph)
        assert len({o.name for o in part.graph.outputs}) == len(part.graph.outputs)
    for k, p in enumerate(split.passed):
        assert p.users
        assert all(u > p.maker for u in p.users)
        places = [t for x in split.parts for t in x.targets if t.kind not in (INPUT, OUTPUT)]
        assert [t.index for t in places].count(k) == 1
    symbols = shapes_for(graph, 1, seed % 1000)[0]
    inputs = random_inputs(graph, symbols, seed % 1000)
    expected = evaluate(graph, inputs, symbols)
    for name, value in in_sequence(split, inputs, symbols).items():
        np.testing.assert_array_equal(
            value.reshape(-1).view(np.uint8), expected[name].value.reshape(-1).view(np.uint8)
        )


def brute_force(cutter: Cutter, weights: Sequence[int], limit: int) -> tuple[int, int]:
    """Number of parts and bytes of the best split, by trying all."""
    size = len(cutter.nodes)
    costs = [cutter.traffic(i) for i in range(size)]
    best = (size + 1, 0)
    for count in range(size):
        for cuts in itertools.combinations(range(1, size), count):
            places = [0, *cuts, size]
            spans = list(itertools.pairwise(places))
            if all(sum(weights[a:b]) <= limit for a, b in spans):
                best = min(best, (len(spans), sum(costs[a][b - a - 1] for a, b in spans)))
        if best[0] <= size:
            break
    return best


@settings(max_examples=120, derandomize=True, deadline=None, suppress_health_check=RELAXED)
@given(seeds)
def test_the_search_finds_the_fewest_parts_and_then_the_fewest_bytes(seed: int) -> None:
    rng = Random(seed)
    graph = graph_of(rng, max_ops=9)
    cutter = Cutter(graph)
    size = len(cutter.nodes)
    if not 2 <= size <= 12:
        return
    weights = [rng.randint(1, 5) for _ in range(size)]
    weight = {n.name: w for n, w in zip(cutter.nodes, weights, strict=True)}
    limit = max(max(weights), sum(weights) // rng.randint(1, 5))

    def refusal(part: FusionGraph) -> AutofuseError | None:
        heavy = sum(weight[n.name] for n in part.nodes) > limit
        return AutofuseError.of("AF3003", "heavy") if heavy else None

    found = find_split(graph, refusal)
    assert isinstance(found, Split)
    assert all(refusal(p.graph) is None for p in found.parts)
    ends = list(itertools.accumulate(len(p.graph.nodes) for p in found.parts))
    traffic = sum(cutter.traffic(a)[b - a - 1] for a, b in itertools.pairwise([0, *ends]))
    assert (len(ends), traffic) == brute_force(cutter, weights, limit)


@settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=RELAXED)
@given(seeds)
def test_whatever_the_answers_are_parts_are_accepted_or_obstacles_named(seed: int) -> None:
    """Answers without rhyme or reason: the search ends, and claims nothing that was not asked."""
    rng = Random(seed)
    graph = graph_of(rng, max_ops=16)
    if not Cutter(graph).nodes:
        return
    share = rng.choice((0.2, 0.5, 0.9))
    answers: dict[tuple[str, ...], bool] = {}

    def refusal(part: FusionGraph) -> AutofuseError | None:
        names = tuple(n.name for n in part.nodes)
        assert names not in answers, "asked twice"
        answers[names] = rng.random() < share
        return None if answers[names] else AutofuseError.of("AF3003", "no")

    found = find_split(graph, refusal)
    size = len(Cutter(graph).nodes)
    assert len(answers) <= (size + 1) * (2 * size.bit_length() + 4) + MAX_CHECKS + 2 * size
    if isinstance(found, Uncut):
        assert all(answers[(o.node.name,)] is False for o in found.obstacles)
        assert found.obstacles
    else:
        assert all(answers[tuple(n.name for n in p.graph.nodes)] for p in found.parts)


@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=RELAXED)
@given(seeds)
def test_traffic_is_the_bytes_of_parameters(seed: int) -> None:
    rng = Random(seed)
    graph = graph_of(rng, max_ops=10)
    cutter = Cutter(graph)
    sizes = {
        s.name: min(max(1024 if s.hint is None else s.hint, s.min), s.max) for s in graph.symbols
    }

    def nbytes(name: str) -> int:
        t = graph.tensors[name]
        return int(np.prod([e.evaluate(sizes) for e in t.shape], dtype=object)) * t.dtype.itemsize

    for first in range(len(cutter.nodes)):
        costs = cutter.traffic(first)
        for end in range(first + 1, len(cutter.nodes) + 1):
            part = cutter.part(first, end, "p")
            read = {x for n in part.nodes for x in n.inputs if isinstance(x, str)}
            read |= {o.tensor for o in part.outputs}
            loaded = sum(nbytes(x) for x in part.inputs if x in read)
            stored = sum(nbytes(o.tensor) for o in part.outputs)
            assert costs[end - first - 1] == loaded + stored


@pytest.mark.twin
@pytest.mark.slow
@settings(max_examples=10, derandomize=True, deadline=None, suppress_health_check=RELAXED)
@given(seeds)
def test_kernels_and_driver_compute_the_whole(seed: int) -> None:
    """Random graphs through the generated driver: cut at random places, or, for lack of UB, where it is best."""
    rng = Random(seed)
    chip = load_target("ascend910b1")
    searched = rng.random() < 0.5
    graph = graph_of(rng, max_ops=40 if searched else 12, max_elements=4000)
    nodes = Cutter(graph).nodes
    if len(nodes) < 3:
        return
    names = [nodes[e - 1].name for e in ends_of(rng, len(nodes))[:-1]][:2] or [nodes[0].name]
    try:
        built = api.build_split(
            graph,
            target=chip.with_ub(rng.choice((1536, 2048))) if searched else chip,
            cut_after=None if searched else names,
            verify_ir=True,
        )
    except AutofuseError as e:
        if graph_strategies.refused(e):
            return
        raise
    report = api.verify(built, shapes=2, seed=seed % 1000)
    sizes_too_large = all(d.code == "AF5003" and "UB" in str(d) for d in report.diagnostics)
    assert report.ok or sizes_too_large, [str(d) for d in report.diagnostics]
