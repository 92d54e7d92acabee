"""Groups that do the same to other tensors share what they cost: the files are those of groups planned one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import graph_strategies
import pytest
import storm_strategies as storms
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.cutting.dimensions import symbolize
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, GraphOutput
from autofuse.schedule import scheduler

TARGETS = ("ascend910b1", "ascend310p")
SETTINGS = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.generate],
)
seeds = st.integers(0, 1 << 62)


def joined(parts: Sequence[FusionGraph]) -> FusionGraph:
    """A graph that does what several graphs do, each to tensors of its own."""

    def renamed(name: str, k: int) -> str:
        return f"{name}_{len(parts) - k}"  # in another order by name than by place

    def node(n: FusionNode, k: int) -> FusionNode:
        inputs = [renamed(x, k) if isinstance(x, str) else x for x in n.inputs]
        outputs = [renamed(x, k) for x in n.outputs]
        return FusionNode(renamed(n.name, k), n.op, tuple(inputs), tuple(outputs), n.attrs)

    def output(o: GraphOutput, k: int) -> GraphOutput:
        inout = None if o.inout is None else renamed(o.inout, k)
        return GraphOutput(renamed(o.name, k), renamed(o.tensor, k), inout)

    named = list(enumerate(parts))
    tensors = [replace(t, name=renamed(t.name, k)) for k, g in named for t in g.tensors.values()]
    return FusionGraph(
        parts[0].name,
        tuple(dict.fromkeys(s for g in parts for s in g.symbols)),
        tuple(renamed(x, k) for k, g in named for x in g.inputs),
        tuple(node(n, k) for k, g in named for n in g.nodes),
        tuple(output(o, k) for k, g in named for o in g.outputs),
        {t.name: t for t in tensors},
    )


def built(g: FusionGraph, target: str) -> object:
    """The files, or why there are none."""
    try:
        return api.build(g, target=target, verify_ir=False).files
    except AutofuseError as e:
        return e.diagnostics


def check(g: FusionGraph) -> None:
    for target in TARGETS:
        shared = built(g, target)
        with pytest.MonkeyPatch.context() as m:
            m.setattr(scheduler, "likeness", lambda _: object())
            assert built(g, target) == shared


@SETTINGS
@given(seeds)
def test_random_graphs(seed: int) -> None:
    rng = Random(seed)
    options = graph_strategies.Options(max_ops=8, max_inputs=3, moves=rng.random() < 0.5)
    graph = graph_strategies.random_graph(rng, "g", options)
    graph = symbolize(graph, 1) if rng.random() < 0.3 else graph
    check(joined([graph] * rng.randint(2, 3)))


@pytest.mark.parametrize("family", storms.FAMILIES)
def test_families(family: str) -> None:
    @settings(SETTINGS, max_examples=4)
    @given(st.builds(Random, seeds))
    def run(rng: Random) -> None:
        graph = api.read(storms.random_case(rng, family).document)
        check(joined([graph, graph]))

    run()


@settings(SETTINGS, max_examples=40)
@given(seeds)
def test_graphs_that_are_nearly_alike(seed: int) -> None:
    """The same choices with other limits: ops, types, sizes or strides differ."""
    rng = Random(seed)
    options = graph_strategies.Options(max_ops=rng.randint(1, 4), max_inputs=2)
    other = rng.choice(
        [
            replace(options, dtypes=("float16",)),
            replace(options, strides=False),
            replace(options, inout=False),
            replace(options, max_elements=2000),
            replace(options, max_ops=options.max_ops + 1),
        ]
    )
    parts = [graph_strategies.random_graph(Random(seed), "g", o) for o in (options, other, options)]
    check(joined(parts))
