"""The planner chooses the side along which a program reads a tensor, its blocks, and the passes."""

from __future__ import annotations

from typing import Any

import pytest
from triton_graphs import ALONG, ONLINE, WAITING, Node, graph

from autofuse import api
from autofuse.codegen.backends.triton.kernels import Blocks, Form, Kernel
from autofuse.codegen.backends.triton.plan import plan
from autofuse.codegen.nests.levels import Join, passes
from autofuse.targets import load_gpu

GPU = load_gpu("nvidia-h100")


@pytest.mark.parametrize("per_row", [0, 2, 4])
def test_sums_over_rows_read_along_the_columns_whatever_there_is_per_row(per_row: int) -> None:
    scales = [f"s{i}" for i in range(per_row)]
    nodes, last = [], "x"
    for s in scales:
        nodes.append({"name": f"m{s}", "op": "Mul", "inputs": [last, s], "outputs": [f"y{s}"]})
        last = f"y{s}"
    nodes.append(
        {
            "name": "sum",
            "op": "ReduceSum",
            "inputs": [last],
            "outputs": ["y"],
            "attrs": {"axes": [0]},
        }
    )
    source = {
        "schema": "autofuse.graph/1",
        "name": "sums",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [1024, 65536]}]
        + [{"name": s, "dtype": "float32", "shape": [1024, 1]} for s in scales],
        "nodes": nodes,
        "outputs": ["y"],
    }
    built = api.build(source, target=GPU)
    (kernel,) = plan(built.graph, built.hint, GPU).kernels
    assert kernel.blocks is not None
    # 32 bytes is the least that memory moves.
    assert kernel.blocks.rows * 4 >= 32


def _items(source: dict[str, Any]) -> list[list[Join]]:
    """Return the rules that join the reductions of each pass, of the kernel that loops over the columns."""
    built = api.build(source, target=GPU)
    (kernel,) = (k for k in plan(built.graph, built.hint, GPU).kernels if k.form is Form.LOOP)
    return [[i.join for i in items] for items in kernel.passes]


@pytest.mark.parametrize("what", ONLINE)
def test_one_pass_has_a_maximum_and_a_sum_of_powers_below_it(what: str) -> None:
    items = _items(ONLINE[what]("rows", "cols"))
    assert items[-1] == [Join.EXPONENTIALS]
    # Only a maximum of what needs another reduction has a pass before it.
    assert len(items) == 1 + (what == "softmax of differences")


@pytest.mark.parametrize("what", WAITING)
def test_powers_that_may_be_large_wait_for_the_maximum(what: str) -> None:
    assert _items(WAITING[what]("rows", "cols")) == [[Join.PLAIN], [Join.PLAIN]]


@pytest.mark.parametrize("mean", [("Div", ["t0", 37.0], {}), ("Mul", ["t0", 1 / 37], {})])
def test_a_mean_is_a_quotient_or_a_product(mean: Node) -> None:
    nodes: list[Node] = [
        ("ReduceSum", ["x0"], ALONG),
        mean,
        ("Sub", ["x0", "t1"], {}),
        ("Square", ["t2"], {}),
        ("ReduceSum", ["t3"], ALONG),
    ]
    source = graph("squares", [("float32", [1 << 20, 37])], nodes, ["t4"])
    built = api.build(source, target=GPU)
    (kernel,) = plan(built.graph, built.hint, GPU).kernels
    assert [[i.join for i in items] for items in passes(kernel.nest)] == [[Join.MOMENTS]]


def _first(shape: list[int], node: Node) -> Kernel:
    """Return the first kernel of one node over a tensor of float32."""
    built = api.build(graph("case", [("float32", shape)], [node], ["t0"]), target=GPU)
    return plan(built.graph, built.hint, GPU).kernels[0]


def _running(axis: int) -> Node:
    return "CumSum", ["x0"], {"axis": axis, "exclusive": False, "reverse": False}


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [
        ([460, 63937], Blocks(1, 4096, warps=16)),
        ([1024, 1 << 20], Blocks(1, 4096, warps=8)),
        ([100_000, 5000], Blocks(1, 4096, warps=4)),
        ([1, 1 << 20], Blocks(1, 4096, warps=16, chunks=256)),
    ],
)
def test_a_loop_has_more_warps_where_there_are_few_programs(
    shape: list[int], blocks: Blocks
) -> None:
    kernel = _first(shape, ("ReduceSum", ["x0"], ALONG))
    assert (kernel.form, kernel.blocks) == (Form.LOOP, blocks)


SOFTMAX: Node = "Softmax", ["x0"], {"axis": 1}


@pytest.mark.parametrize(
    ("shape", "node", "blocks"),
    [
        # Blocks of 64 rows hold 192 where there are 136.
        ([456, 56, 136], SOFTMAX, Blocks(32, 64, warps=2)),
        ([456, 56, 128], SOFTMAX, Blocks(64, 64, warps=4)),
        # There are programs enough with 512 rows each, and not with 1024 or, of fewer rows, with 128.
        ([2, 915_824], _running(0), Blocks(512, 2, warps=1)),
        ([2, 100_000], _running(0), Blocks(64, 2, warps=1)),
        ([40, 1_000_000], _running(0), Blocks(64, 64, warps=4)),
    ],
)
def test_blocks_of_columns_that_are_not_contiguous(
    shape: list[int], node: Node, blocks: Blocks
) -> None:
    """A thread holds 32 elements; a block is as large as rows and programs allow, and little of it is empty."""
    kernel = _first(shape, node)
    assert (kernel.form, kernel.blocks) == (Form.ROWS, blocks)


@pytest.mark.parametrize(
    ("shape", "grid", "rows"),
    [
        # Short columns: rows of 71 would fill three quarters of their blocks.
        ([312_625, 3, 71], 0, 2),
        ([312_625, 3, 64], 1, 1),
        ([312_625, 3, 4], 0, 2),
        # Long columns have no index of two axes.
        ([16, 32768, 4], 1, 1),
        ([16, 65, 71], 1, 1),
    ],
)
def test_short_columns_have_one_index_over_all_rows(shape: list[int], grid: int, rows: int) -> None:
    kernel = _first(shape, _running(1))
    assert (len(kernel.grid), len(kernel.rows)) == (grid, rows)
