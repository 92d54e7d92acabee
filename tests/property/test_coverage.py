"""Loops and descriptors of random kernels, run with numbers: every output element once, every load in its tensor."""

from __future__ import annotations

import itertools
from collections import Counter

import graph_strategies
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kernel_interpreter import run_kernel

from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.proofs.model import legal_tiles, small_sizes
from autofuse.codegen.verification import verify_kernel
from autofuse.implgraph.cutting.dimensions import symbolize
from autofuse.implgraph.ir.fusion import FusionGraph, Tensor
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule.scheduler import schedule
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")
TARGETS = (CHIP, CHIP.with_ub(40_000), CHIP.with_ub(8_000))
RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def places(t: Tensor, env: dict[str, int]) -> list[int]:
    """GM indices of the elements of a tensor in row-major order."""
    shape = [d.evaluate(env) for d in t.shape]
    if t.strides is None:
        strides, step = [], 1
        for n in reversed(shape):
            strides.insert(0, step)
            step *= n
    else:
        strides = [s.evaluate(env) for s in t.strides]
    first = t.offset.evaluate(env) if t.offset is not None else 0
    grid = itertools.product(*(range(n) for n in shape))
    return [first + sum(i * s for i, s in zip(at, strides, strict=True)) for at in grid]


def check(graph: FusionGraph, impl: ImplGraph, env: dict[str, int], tile: int, cores: int) -> None:
    spec = impl.tiling
    tiles = spec.outer.evaluate(env) * -(-spec.opened.extent.evaluate(env) // tile)
    per_core = max(1, -(-tiles // cores))
    data = {**env, spec.opened.symbol: tile, spec.block_size: per_core}
    parameters = parameter_names(graph)
    tensors = parameters.names
    fn = run_passes(lower_kernel(impl, parameters, CHIP))
    allowed = {}
    written: dict[str, Counter[int]] = {}
    index = {n.name: n.attrs["index"] for n in impl.nodes if n.op == "Data"}
    # Elements that lie apart may be loaded with what is between them, and picked out in UB.
    runs = {index.get(n.inputs[0]) for n in impl.nodes if n.op == "Load" and n.attrs.get("run")}
    for i, name in enumerate(graph.inputs):
        here = places(graph.tensors[name], env)
        between = range(min(here), max(here) + 1) if i in runs and here else ()
        allowed[tensors[i]] = {*here, *between}
    outputs = {int(str(n.attrs["index"])) for n in impl.nodes if n.op == "Output"}
    want = {}
    for i, out in enumerate(graph.outputs):
        t = graph.tensors[out.inout or out.tensor]
        dense = Tensor(t.name, t.dtype, t.shape)
        if i in outputs:
            want[tensors[len(graph.inputs) + i]] = places(t if out.inout else dense, env)
    # One core more than there is work for: it must do nothing.
    for move in run_kernel(fn, data, -(-tiles // per_core) + 1):
        for _, ub, nbytes in move.pieces:
            assert ub % 32 == 0
            assert ub >= 0
            assert ub + -(-nbytes // 32) * 32 <= move.room, f"{move.local} leaves its buffer"
        if move.store:
            written.setdefault(move.param, Counter()).update(move.elements())
        else:
            outside = set(move.elements()) - allowed[move.param]
            assert not outside, f"{move.param}: {sorted(outside)[:5]}"
    for param, elements in want.items():
        assert written.pop(param, Counter()) == Counter(elements), param
    assert not written


@settings(max_examples=150, deadline=None, suppress_health_check=RELAXED)
@given(data=st.data())
def test_stores_cover_outputs_and_loads_stay_inside(data: st.DataObject) -> None:
    rng = data.draw(st.builds(graph_strategies.Random, st.integers(0, 1 << 62)))
    options = graph_strategies.Options(max_elements=3_000, max_ops=6, max_inputs=4)
    graph: FusionGraph = graph_strategies.random_graph(rng, "g", options)
    symbols = data.draw(st.sampled_from([0, 0, 1, 2, 3]))
    graph = symbolize(graph, symbols) if symbols else graph
    target = data.draw(st.sampled_from(TARGETS))
    try:
        results = schedule(canonicalise(lower(graph)), target)
    except AutofuseError as e:
        if graph_strategies.refused(e):
            return
        raise
    impls = [i for r in results for g in r.groups for i in g.impls]
    impl = data.draw(st.sampled_from(impls))
    assert (
        verify_kernel(
            run_passes(lower_kernel(impl, parameter_names(graph), target)), impl, graph, target
        )
        == []
    )
    sizes = [
        env
        for env in small_sizes(impl)
        if all(_elements(t, env) <= 20_000 for t in graph.tensors.values())
    ]
    assume(sizes)
    env = data.draw(st.sampled_from(sizes))
    tiles = legal_tiles(impl, env, most=60)
    assume(tiles)
    check(graph, impl, env, data.draw(st.sampled_from(tiles)), data.draw(st.integers(1, 48)))


def _elements(t: Tensor, env: dict[str, int]) -> int:
    count = 1
    for d in t.shape:
        count *= d.evaluate(env)
    return count
