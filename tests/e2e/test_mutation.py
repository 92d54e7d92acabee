"""Generated kernels with one mistake each: the twin or the comparison must see it (``benchmarks/mutation.py``)."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from autofuse import api
from autofuse.implgraph.dimensions import shrink

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import mutation  # noqa: E402

pytestmark = [pytest.mark.twin, pytest.mark.slow]

#: Queues, flags and barriers; broadcasts, scratch space, in-out parameters, dynamic sizes.
GRAPHS = (
    *(f"tests/snapshot/graphs/{n}.json" for n in ("two_groups", "broadcast_trailing", "in_out")),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("runtime_scalar", "compare_select")),
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
    kinds = (*mutation.SYNCHRONISATION, *mutation.MEMORY)
    chosen = mutation.sample(built, kinds, PER_CLASS, seed=0)
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
    record_property("mutants", dict(states))  # type: ignore[operator]
