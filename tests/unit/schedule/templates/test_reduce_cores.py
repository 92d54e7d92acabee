"""Reductions that keep rows: the axes and blocks of columns by which cores share them."""

from __future__ import annotations

import math

import draws
import pytest
from twin_graphs import CHIP, check, every_template, graph

from autofuse import api
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import best_tiling
from autofuse.schedule.templates.reduce import _block_for

F, H = "float32", "float16"


@pytest.mark.parametrize(
    ("size", "length"),
    [(None, 128), (48 * 128, 128), (3000, 64), (2048, 64), (1024, 32), (200, 32), (100_000, 64)],
)
def test_blocks_are_short_where_there_are_few(size, length) -> None:
    assert _block_for(size, 48) == length
    if size is not None:
        times = {n: math.ceil(math.ceil(size / n) / 48) * n for n in (32, 64, 128)}
        assert times[length] == min(times.values())


def taken(built: api.BuildResult) -> list[tuple[str, int]]:
    """Name and cores of the template of every group."""
    costs = Costs(CHIP)
    impls = [i for g in built.schedule[0].groups for i in g.impls]
    found = [(i.suffix, best_tiling(i, costs, {})) for i in impls]
    return [(suffix, t.cores) for suffix, t in found if t is not None]


def test_sums_of_few_columns_occupy_more_cores() -> None:
    """Gradients of a layer norm: many rows, and vector work that a core per 128 columns would not finish."""
    inputs = {n: (F, [2048, 1024]) for n in ("x", "y", "z")}
    nodes = [
        ("e", "Exp", ["x"]),
        ("f", "Tanh", ["y"]),
        ("p", "Mul", ["e", "f"]),
        ("q", "Mul", ["p", "z"]),
        ("s", "ReduceSum", ["q"], {"axes": [0]}),
    ]
    ((suffix, cores), *_) = taken(api.build(graph(inputs, nodes, ["s"])))
    assert suffix.startswith("block_")
    assert cores > 1024 // 128


def by_head(batch: int, tokens: int, heads: int, width: int, dtype: str = F) -> dict[str, object]:
    """Sums over tokens of what lies by head."""
    inputs = {"x": (dtype, [batch, heads, tokens, width])}
    nodes = [
        ("t", "Transpose", ["x"], {"perm": [0, 2, 1, 3]}),
        ("e", "Exp", ["t"]),
        ("y", "ReduceSum", ["e"], {"axes": [1]}),
    ]
    return graph(inputs, nodes)


def test_cores_share_kept_axes_inside_reduced_ones() -> None:
    ((suffix, cores),) = taken(api.build(by_head(4, 1024, 12, 64)))
    assert suffix == "apart"
    assert cores > 4


@pytest.mark.twin
@pytest.mark.parametrize("dtype", [F, H])
@pytest.mark.parametrize("sizes", [(2, 33, 5, 40), (3, 7, 1, 16), (1, 129, 6, 20), (2, 4, 3, 9)])
def test_every_template_is_right(sizes, dtype) -> None:
    with every_template():
        built = check(by_head(*sizes, dtype=dtype), seed=draws.seed())
    suffixes = {i.suffix for r in built.schedule for g in r.groups for i in g.impls}
    assert ("apart" in suffixes) == (sizes[2] > 1)


@pytest.mark.twin
def test_shorter_blocks_are_right() -> None:
    inputs = {"x": (F, [70, 300]), "w": (F, [300])}
    nodes = [("p", "Mul", ["x", "w"]), ("y", "ReduceSum", ["p"], {"axes": [0]})]
    with every_template():
        built = check(graph(inputs, nodes), seed=draws.seed())
    suffixes = {i.suffix for r in built.schedule for g in r.groups for i in g.impls}
    assert {"block_128", "block_32"} <= suffixes
