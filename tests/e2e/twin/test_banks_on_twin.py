"""Bank conflicts that the cost model reads off a memory plan are those of the addresses that calls get on the twin."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from autofuse.api import BuildResult, build, load
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.run.findings import KernelText
from autofuse.machines.twin.run.record import ISSUE
from autofuse.machines.twin.timed.timed import EVENTS
from autofuse.schedule.cost.banks import bank_conflict
from autofuse.schedule.cost.cost import Conflict
from autofuse.schedule.cost.ub_map import conflicts
from autofuse.targets import load_target

ROOT = Path(__file__).resolve().parents[3]
CHIP = load_target("ascend910b1")
VECTOR = 1

pytestmark = pytest.mark.twin

GRAPHS = (
    *("examples/adam_like.json", "examples/add_bias_dynamic.json"),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("softmax", "symbolic_rows", "compare_select")),
    "tests/snapshot/graphs/bias_aligned.json",
)


def on_the_twin(built: BuildResult, seed: int) -> dict[tuple[str, str], set[Conflict]]:
    """(Function, node) of every call that reads two tensors of data -> how they and the result lay in the banks."""
    found: dict[tuple[str, str], set[Conflict]] = {}
    kernel = load(built, check="all")
    text = KernelText.of(kernel.path)
    sizes = {s.name: max(s.min, min(s.max, 1000)) for s in built.graph.symbols}
    inputs = random_inputs(built.graph, sizes, seed)
    _, recording = kernel.record(inputs, lambda moved: [0], EVENTS, symbols=sizes)
    (core,) = recording.records
    events = core.events
    here = (events["kind"] == ISSUE) & (events["pipe"] == VECTOR) & (events["nested"] == 0)
    for e in events[here][:2000]:
        reads = [k for k in range(e["spans"]) if not e["writes"] >> k & 1]
        length = max((int(e["hi"][k] - e["lo"][k]) for k in reads), default=0)
        # Masks have a bit for each element.
        data = [int(e["lo"][k]) for k in reads if 4 * int(e["hi"][k] - e["lo"][k]) > length]
        result = int(e["lo"][0]) if int(e["hi"][0] - e["lo"][0]) == length else None
        spot = text.spot(int(e["line"]), nested=False)
        # Single elements are no tensors for the model.
        if len(data) == 2 and spot is not None and length > 8:
            found.setdefault((spot.function, spot.node), set()).add(
                bank_conflict(data, result, CHIP.arch)
            )
    return found


def in_the_model(built: BuildResult) -> Mapping[tuple[str, str], Conflict]:
    sizes = {s.name: 1000 for s in built.graph.symbols}
    return {
        (impl.name, n.name): found
        for r in built.schedule
        for g in r.groups
        for impl in g.impls
        for n, read, found in conflicts(impl, sizes, impl.tiling.opened.granule, CHIP.arch)
        if read == 2
    }


@pytest.mark.parametrize("name", GRAPHS, ids=lambda n: Path(n).stem)
def test_model_and_twin_count_the_same_calls(name: str) -> None:
    built = build(ROOT / name, target=CHIP)
    seen, model = on_the_twin(built, 5), in_the_model(built)
    ran = {function for function, _ in seen}
    assert seen == {call: {found} for call, found in model.items() if call[0] in ran}
    assert Conflict.RESULT not in set().union(*seen.values())


def test_without_halves_of_banks_the_operands_collide() -> None:
    blind = replace(CHIP, arch=replace(CHIP.arch, ub_bank_groups=8))
    built = build(ROOT / "examples/adam_like.json", target=blind)
    seen = on_the_twin(built, 5)
    assert len(seen) == 5
    assert sum(Conflict.SOURCES in found for found in seen.values()) > 2
