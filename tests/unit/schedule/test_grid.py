"""The grid of sizes, cores and UB, and what is kept of the templates that are compared there."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from twin_graphs import CHIP, every_template, graph

from autofuse import api
from autofuse.schedule.rank import LITTLE, needed
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.grid import FIRST, FURTHER, MOST, Point, grid
from autofuse.schedule.search.solver import result_cycles

ANY = {"min": 0, "max": 1 << 20}
SOFTMAX = ("y", "Softmax", ["x"], {"axis": -1})
BIAS = ("y", "Add", ["x", "b"])
HALF, INF = CHIP.ub_usable // 2, math.inf
Document = dict[str, Any]


def points(shape: Sequence[Any], **symbols: Mapping[str, int]) -> tuple[Point, ...]:
    document = graph({"x": ("float32", shape)}, [("y", "Abs", ["x"])], **symbols)
    return grid(api.hint_of(document), CHIP)


def test_a_graph_of_known_sizes_has_one_point_for_each_grant() -> None:
    found = points([64, 64])
    assert [(p.ub, p.cores) for p in found] == [
        (None, None),
        (None, 24),
        (None, 1),
        (HALF, None),
        (HALF, 24),
        (HALF, 1),
    ]


def test_the_first_point_is_typical_and_sizes_lie_in_their_ranges() -> None:
    found = points(["n", "m"], n={"min": 3, "max": 4097, "hint": 77}, m={"min": 0, "max": 5000})
    assert found[0] == Point({"n": 77, "m": 1024})
    whole = [p.sizes for p in found if not p.limited]
    assert {"n": 3, "m": 0} in whole
    assert {"n": 4097, "m": 5000} in whole
    assert all(3 <= s["n"] <= 4097 and 0 <= s["m"] <= 5000 for s in whole)
    assert any(s["n"] % 2 for s in whole)
    assert any(s["n"] & (s["n"] - 1) == 0 for s in whole)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_points_are_few_and_the_same_every_time(count: int) -> None:
    names = [f"s{k}" for k in range(count)]
    found = points(names, **{n: {"min": 1, "max": 1 << 11} for n in names})
    assert len(found) == min(FIRST + FURTHER * (count - 1), MOST) + 5
    assert found == points(names, **{n: {"min": 1, "max": 1 << 11} for n in names})


@pytest.mark.parametrize(
    ("times", "always", "kept"),
    [
        # Each is the fastest somewhere.
        ([[1, 4], [2, 3]], [True, False], [0, 1]),
        # The second one wins by too little.
        ([[1, 300], [2, 299]], [True, False], [0]),
        # Nobody needs the last one.
        ([[1, 3], [2, 2], [9, 9]], [True, False, False], [0, 1]),
        # It never wins, and is the one for every size.
        ([[1, 3], [2, 2], [9, 9]], [False, False, True], [0, 1, 2]),
        # The faster one of two that are for every size.
        ([[1, 1], [8, 8], [9, 9]], [False, True, True], [0, 1]),
        # One is legal where the other one is not.
        ([[1, INF], [INF, 1]], [False, False], [0, 1]),
        ([[INF, INF], [1, INF]], [False, False], [1]),
        ([[INF], [INF]], [False, False], [0]),
    ],
)
def test_kept_are_those_without_which_a_point_would_take_longer(
    times: list[list[float]], always: list[bool], kept: list[int]
) -> None:
    assert needed(times, [LITTLE] * len(times[0]), always) == kept


GRAPHS: dict[str, Document] = {
    "rows": graph({"x": ("float32", ["m", "n"])}, [SOFTMAX], m=ANY, n=ANY),
    "known rows": graph({"x": ("float16", ["m", 768])}, [SOFTMAX], m=ANY),
    "bias": graph({"x": ("float32", ["m", "n"]), "b": ("float32", ["n"])}, [BIAS], m=ANY, n=ANY),
    "columns": graph(
        {"x": ("float32", ["m", "n"])},
        [("y", "ReduceSum", ["x"], {"axes": [0], "keepdims": False})],
        m={**ANY, "min": 1},
        n=ANY,
    ),
    "turned": graph(
        {"x": ("float32", ["a", "b", "c"])},
        [("y", "Transpose", ["x"], {"perm": [2, 0, 1]})],
        a={"min": 0, "max": 1 << 12},
        b={"min": 0, "max": 1 << 12},
        c={"min": 0, "max": 1 << 12},
    ),
    "sums": graph(
        {"x": ("float32", ["m", "n"])}, [("y", "CumSum", ["x"], {"axis": 1})], m=ANY, n=ANY
    ),
    "fixed": graph({"x": ("float32", [96, 5000])}, [SOFTMAX]),
}


def drawn(rng: random.Random, least: int, most: int) -> int:
    """A size whose logarithm is evenly spread, at times the least one."""
    if rng.random() < 0.1:
        return min(max(rng.choice([least, 0, 1, 2]), least), most)
    return round(math.exp(rng.uniform(math.log(max(least, 1)), math.log(most))))


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_left_out_is_missed_by_no_size(name: str) -> None:
    """With from half of UB on and any number of cores there is a tiling where one of all templates has one."""
    document = GRAPHS[name]
    kept = api.build(document, target=CHIP)
    with every_template():
        every = api.build(document, target=CHIP).schedule
    rng, costs = random.Random(7), Costs(CHIP)
    lost = []
    for _ in range(60):
        sizes = {s.name: drawn(rng, s.min, s.max) for s in kept.graph.symbols}
        ub = rng.randint(CHIP.ub_usable // 2, CHIP.ub_usable)
        cores = rng.randint(1, CHIP.aiv_cores)
        here, there = (
            [result_cycles(r, costs, sizes, ub=ub, cores=cores) for r in results]
            for results in (kept.schedule, every)
        )
        assert (here == [None] * len(here)) == (there == [None] * len(there)), (sizes, ub, cores)
        found = [min((c for c in cs if c is not None), default=1.0) for cs in (here, there)]
        lost.append(found[0] / found[1])
    assert sorted(lost)[len(lost) * 3 // 4] < 1.02


def test_reasons_name_the_grid() -> None:
    (result,) = api.build(GRAPHS["known rows"], target=CHIP).schedule
    assert [i.template for i in result.groups[0].impls] == ["reduce_all"]
    (why,) = (r.reason for r in result.rejected if r.title.startswith("reduce (tile z1)"))
    words = "never the fastest on the grid of [0-9]+ points; slower by the model than reduce_all "
    assert re.match(words, why)
