"""Generated kernels with one mistake each: the twin or the comparison must see it (``benchmarks/mutation.py``)."""

from collections import Counter
from pathlib import Path

import mutation
import pytest
from mutation_kernels import ACCUMULATION, MEMORY, SYNCHRONISATION, sample

from autofuse import api
from autofuse.implgraph.dimensions import shrink

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.twin, pytest.mark.slow]

#: Queues, flags, barriers and SyncAll; broadcasts, scratch space, in-out parameters, comparisons, dynamic sizes; reduce
#: loops, norms, workspaces.
GRAPHS = (
    *(f"tests/snapshot/graphs/{n}.json" for n in ("two_groups", "broadcast_trailing", "in_out")),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("runtime_scalar", "compare_select")),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("in_out_read_by_all", "reduce_columns")),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("softmax", "reduce_twice")),
    "examples/add_bias_dynamic.json",
)
PER_CLASS = 2


@pytest.mark.parametrize("name", GRAPHS, ids=lambda n: Path(n).stem)
def test_mutants_are_killed(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: pytest.FixtureRequest,
) -> None:
    for variable, value in mutation.environment(str(tmp_path)).items():
        monkeypatch.setenv(variable, value)
    built = api.build(shrink(api.read(ROOT / name), mutation.MAX_ELEMENTS))
    chosen = sample(built, (*SYNCHRONISATION, *MEMORY, *ACCUMULATION), PER_CLASS, seed=0)
    assert len(chosen) > 20
    with mutation.worker_pool() as pool:
        rows = list(mutation.rows_of(built, chosen, pool))
    assert len(rows) == len(chosen)
    states = Counter(r.state for r in rows)
    alive = [
        f"{r.function}: {r.kind}: {r.text} ({r.state})"
        for r in rows
        if r.state not in ("killed", "equivalent")
    ]
    assert not alive, "\n".join(alive)
    assert states["killed"] > 3 * states["equivalent"]
    # A rule that calls a mutant equivalent which something kills is wrong.
    assert not [r for r in rows if r.rule and r.state == "killed"]
    barriers = [r for r in rows if r.kind == "delete-syncall"]
    assert bool(barriers) == (Path(name).stem in ("in_out_read_by_all", "reduce_twice"))
    assert all("race" in r.codes and r.static for r in barriers)
    accumulators = {r.kind for r in rows} & set(ACCUMULATION)
    assert bool(accumulators) == (Path(name).stem in ("reduce_columns", "softmax", "reduce_twice"))
    record_property("mutants", dict(states))  # type: ignore[operator]
