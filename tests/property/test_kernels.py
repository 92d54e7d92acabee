"""Random graphs through scheduling and code generation: legal kernels, and right results on the twin."""

from __future__ import annotations

import graph_strategies
import kernel_checks
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.backend import BACKEND
from autofuse.codegen.backends.interface import Job, generate
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.verification import verify_kernel as verify_function
from autofuse.implgraph.check.verify import verify
from autofuse.implgraph.cutting.dimensions import symbolize
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.machines.twin.verify.verify import verify_kernel
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.scheduler import schedule
from autofuse.schedule.search.costs import Costs
from autofuse.targets import TargetSpec, load_target

CHIP = load_target("ascend910b1")
#: Little UB makes many tiles, tails and single buffers out of small tensors.
TARGETS = (CHIP, CHIP.with_ub(40_000), CHIP.with_ub(8_000))
DTYPES = (
    graph_strategies.WIDE,
    ("float32", "float16"),
    ("float32", "float16", "bool"),
    ("float32", "bfloat16", "int32", "int16", "bool"),
)
RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@st.composite
def graphs(draw: st.DrawFn, max_elements: int = 20_000) -> FusionGraph:
    """A graph of constant or symbolic sizes."""
    options = graph_strategies.Options(
        max_elements=max_elements, dtypes=draw(st.sampled_from(DTYPES))
    )
    # One number per graph: with a draw per decision, most of the time would go into drawing.
    rng = draw(st.builds(graph_strategies.Random, st.integers(0, 1 << 62)))
    graph: FusionGraph = graph_strategies.random_graph(rng, "g", options)
    symbols = draw(st.sampled_from([0, 0, 1, 3]))
    return symbolize(graph, symbols) if symbols else graph


def scheduled(graph: FusionGraph, target: TargetSpec) -> tuple[ScheduleResult, ...] | None:
    """What the scheduler makes of a graph; None for one that it may refuse."""
    try:
        return schedule(canonicalise(lower(graph)), target)
    except AutofuseError as e:
        if graph_strategies.refused(e):
            return None
        raise


@settings(max_examples=250, derandomize=True, deadline=None, suppress_health_check=RELAXED)
@given(graphs(), st.sampled_from(TARGETS))
def test_kernels_keep_the_rules_of_the_chip(graph: FusionGraph, target: TargetSpec) -> None:
    results = scheduled(graph, target)
    if results is None:
        return
    for impl in (i for r in results for g in r.groups for i in g.impls):
        assert verify(impl) == []
        fn = run_passes(lower_kernel(impl, parameter_names(graph), target))
        assert kernel_checks.violations(fn) == []
        assert verify_function(fn, impl, graph, target) == []
    job = Job(graph, target, Costs(target))
    assert generate(BACKEND, job, results) == generate(BACKEND, job, results)


@pytest.mark.twin
@settings(
    max_examples=35,
    derandomize=True,  # the same graphs in every run; benchmarks and other seeds look for new ones
    deadline=None,
    suppress_health_check=RELAXED,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(graph=graphs(), target=st.sampled_from(TARGETS), special=st.booleans())
def test_kernels_compute_what_the_graph_says(
    graph: FusionGraph, target: TargetSpec, special: bool
) -> None:
    # With so little UB, sizes that are known at run time only may have no legal tile.
    target = CHIP if graph.symbols else target
    results = scheduled(graph, target)
    if results is None:
        return
    files = generate(BACKEND, Job(graph, target, Costs(target)), results)
    strided = any(graph.tensors[x].strides is not None for x in graph.inputs)
    # Strides are those of the sizes that were drawn.
    sizes = [{s.name: s.hint or 0 for s in graph.symbols}] if strided else None
    report = verify_kernel(files, graph, bindings=sizes, count=3, special=special, seed=1)
    assert report.ok, "\n".join(map(str, report.diagnostics))


# the checks themselves ------------------------------------------------------------------------
def test_the_rules_are_broken_without_barriers_and_syncs():
    """The checks see what the passes are for."""
    found = []
    for seed in range(20):
        graph = graph_strategies.random_graph(graph_strategies.Random(seed), "g")
        results = scheduled(graph, CHIP)
        for impl in (i for r in results or () for g in r.groups for i in g.impls):
            found += kernel_checks.violations(lower_kernel(impl, parameter_names(graph), CHIP))
    missing = ("without a barrier", "without waiting for")
    assert all(any(m in f for f in found) for m in missing)
    assert all(any(m in f for m in missing) for f in found)
