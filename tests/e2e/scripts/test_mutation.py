"""Generated kernels with one mistake each: the twin or the comparison must see it (``mutation_run.py``).

A run takes half of the kernels, the same in every run, and all with ``CORPUS=all``.
"""

from collections import Counter
from pathlib import Path

import mutation_run as mutation
import pytest
from draws import some
from mutation_kernels import ACCUMULATION, MEMORY, SYNCHRONISATION, sample
from twin_graphs import every_template

from autofuse import api
from autofuse.implgraph.cutting.dimensions import shrink

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.twin, pytest.mark.slow]

#: Queues, flags, barriers and SyncAll; broadcasts, scratch space, in-out parameters, comparisons, dynamic sizes; reduce
#: loops, norms, workspaces; runs of which elements are picked.
GRAPHS = (
    *(f"tests/snapshot/graphs/{n}.json" for n in ("two_groups", "broadcast_trailing", "in_out")),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("runtime_scalar", "compare_select")),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("in_out_read_by_all", "reduce_columns")),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("softmax", "reduce_twice")),
    *(
        f"tests/snapshot/graphs/{n}.json"
        for n in ("gather_rows", "running_sum", "running_sum_rows")
    ),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("norm_online", "log_sum_exp", "softmax_shared")),
    "tests/snapshot/graphs/strided.json",
    "examples/add_bias_dynamic.json",
)
#: So little UB that rows of shrunk graphs share the buffers of loads and results.
UB_BYTES = {"softmax_shared": 11500}
#: A reduction that the cores share in parts, with elements enough for all parts.
DIVIDED = """{
  "schema": "autofuse.graph/1",
  "name": "divided",
  "symbols": {"n": {"min": 0, "max": 4194304}},
  "inputs": [{"name": "x", "dtype": "float32", "shape": ["n"]}],
  "nodes": [{"name": "sum", "op": "ReduceSum", "inputs": ["x"], "outputs": ["y"], "attrs": {"axes": [0]}}],
  "outputs": ["y"]
}"""
PER_CLASS = 2
KERNELS = (*GRAPHS, "divided")
SAMPLE = [KERNELS[i] for i in some("mutants", len(KERNELS) // 3, len(KERNELS))]


@pytest.mark.parametrize("name", SAMPLE, ids=lambda n: Path(n).stem)
def test_mutants_are_killed(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: pytest.FixtureRequest,
) -> None:
    for variable, value in mutation.environment(str(tmp_path)).items():
        monkeypatch.setenv(variable, value)
    graph = api.read(DIVIDED if name == "divided" else ROOT / name)
    ub = UB_BYTES.get(Path(name).stem)
    with every_template():  # also those that the model drops for graphs this small
        built = api.build(shrink(graph, mutation.MAX_ELEMENTS), ub_bytes=ub)
    chosen = sample(built, (*SYNCHRONISATION, *MEMORY, *ACCUMULATION), PER_CLASS, seed=0)
    # The form in one phase has a template for rows that are longer than those here.
    chosen = [c for c in chosen if name != "divided" or c.impl is None or c.impl.result == 1]
    assert len(chosen) > 20
    with mutation.worker_pool() as pool:
        rows = list(mutation.rows_of(built, chosen, pool))
    assert len(rows) == len(chosen)
    states = Counter(r.state for r in rows)
    alive = [
        f"{r.function}: {r.kind}: {r.text} ({r.state})"
        for r in rows
        if r.state not in ("killed", "equivalent", "rejected")
    ]
    assert not alive, "\n".join(alive)
    # A moved statement may leave the scope of its sizes; the compiler sees that.
    assert states["rejected"] <= 2
    assert states["killed"] > 3 * states["equivalent"]
    # A rule that calls a mutant equivalent which something kills is wrong.
    assert not [r for r in rows if r.rule and r.state == "killed"]
    barriers = [r for r in rows if r.kind == "delete-syncall"]
    stem = Path(name).stem
    assert bool(barriers) == (stem in ("in_out_read_by_all", "reduce_twice", "divided"))
    assert all("race" in r.codes and r.static for r in barriers)
    accumulators = {r.kind for r in rows} & set(ACCUMULATION)
    loops = ("reduce_columns", "softmax", "reduce_twice", "divided")
    loops += ("running_sum", "running_sum_rows", "norm_online", "log_sum_exp", "softmax_shared")
    assert bool(accumulators) == (stem in loops)
    record_property("mutants", dict(states))  # type: ignore[operator]
