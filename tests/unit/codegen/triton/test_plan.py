"""Which side of a tensor a program reads along."""

from __future__ import annotations

from typing import Any

import pytest
from triton_graphs import ALONG, ONLINE, WAITING, Node, graph

from autofuse import api
from autofuse.codegen.backends.triton.kernels import Form
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
