"""The bytes that the cost model counts are those that kernels move, as the twin counts them."""

import pytest
import traffic

from autofuse.api import build
from autofuse.schedule.search.bound import bind, chip_figures
from autofuse.schedule.search.cost_form import cost_form

pytestmark = pytest.mark.twin

CASES = {c.name: c for c in traffic.cases()}


@pytest.mark.parametrize(
    "name",
    [
        "element-wise 4099 x 1021",
        "broadcast of a column 4096 x 1024",
        "reduce AR 4096 x 1024",
        "softmax 4099 x 1021",
        "slice 4096 x 1024",
        "every third column 4096 x 1024",
        "every third column 4099 x 1021",
        "rows from their end 4099 x 1021",
        "transpose 4096 x 1024",
    ],
)
def test_bytes_of_kernels_that_move_each_once(name: str) -> None:
    moved = traffic.measure(CASES[name])
    _compare(CASES[name], moved)


def test_bytes_of_short_rows() -> None:
    """A row of six numbers is loaded as a block of eight; those that end with the tensor stay as they are."""
    for first, row in ((3, 32), (35, 24)):
        part = {"starts": [0, first], "shape": [4099, 6], "steps": [1, 1]}
        steps = [traffic.step("Slice", "x", **part)]
        case = traffic.Case("six columns", "4099 x 41", {"x": (4099, 41)}, steps)
        moved = traffic.measure(case)
        assert (moved.loaded, moved.stored) == (4099 * row, 4099 * 24)
        _compare(case, moved)


def _compare(case: traffic.Case, moved: traffic.Traffic) -> None:
    """The bytes by the model are those that moved, with tiles of any length."""
    built = build(traffic.graph(case))
    (group,) = built.schedule[0].groups
    named = {f"{i.template}_{i.suffix}" if i.suffix else i.template: i for i in group.impls}
    impl = named[moved.templates]
    form, chip = bind(cost_form(impl, built.target), impl.tiling, {}), chip_figures(built.target)
    for tile in form.lengths(chip)[:3]:
        per_core = -(-form.tiles(tile) // chip.cores)
        assert form.shares(chip, tile, per_core).bytes == moved.loaded + moved.stored
