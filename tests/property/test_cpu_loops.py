"""Random graphs as C++ loops: right results for sizes of every kind."""

from __future__ import annotations

from typing import Any

import graph_strategies
import pytest
import storm_strategies as storms
from draws import some
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from op_steps import OPS, of_one_op
from triton_checks import found_wrong, small

from autofuse import api
from autofuse.implgraph.cutting.dimensions import symbolize
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = pytest.mark.twin

#: Elements of a tensor, at most.
ELEMENTS = 1 << 11
#: The ops are dealt out to so many tests, of which a run takes half.
PARTS = 8
SETTINGS: dict[str, Any] = {
    "derandomize": True,  # the same graphs in every run
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.generate],
}
#: One number per graph: with a draw per decision, most of the time would go into drawing.
random = st.builds(graph_strategies.Random, st.integers(0, 1 << 62))


def check(pool: WorkerPool, graph: FusionGraph, *, special: bool = False, opt: str = "-O0") -> None:
    """Sizes of symbols are small, 0, 1, primes and neighbours of whole blocks."""
    given_strides = any(graph.tensors[x].strides is not None for x in graph.inputs)
    # Strides are those of the sizes that were drawn.
    sizes = [{s.name: s.hint or 0 for s in graph.symbols}] if given_strides else None
    options: dict[str, Any] = {"count": 3, "seed": 1, "special": special}
    wrong = found_wrong(pool, graph, bindings=sizes, target="cpu", opt=opt, **options)
    assert not wrong, f"{wrong}\n{graph}"


@settings(max_examples=15, **SETTINGS)
@given(rng=random, symbols=st.sampled_from([0, 0, 1, 3]), special=st.booleans())
def test_random_graphs(loops: WorkerPool, rng: Any, symbols: int, special: bool) -> None:
    # Between ops, float16 has the range of float32: what is infinite then is another question than right numbers.
    dtypes = tuple(d for d in graph_strategies.WIDE if not (special and d == "float16"))
    options = graph_strategies.Options(max_elements=ELEMENTS, dtypes=dtypes, moves=True)
    graph = graph_strategies.random_graph(rng, "g", options)
    check(loops, symbolize(graph, symbols) if symbols else graph, special=special)


@pytest.mark.parametrize("family", storms.FAMILIES)
def test_families(loops: WorkerPool, family: str) -> None:
    @settings(max_examples=2, **SETTINGS)
    @given(random)
    def run(rng: Any) -> None:
        graph = api.read(storms.random_case(rng, family).document)
        check(loops, small(graph, ELEMENTS))

    run()


@pytest.mark.slow
@pytest.mark.parametrize("part", some("ops on a CPU", PARTS // 2, PARTS))
def test_every_op(loops: WorkerPool, part: int) -> None:
    """By itself, of two dtypes, in vectors."""
    rng = graph_strategies.Random(part)
    for op in sorted(OPS)[part::PARTS]:
        found = list(of_one_op(rng, op))
        assert found, op
        for graph in found:
            check(loops, graph, opt="-O2")
