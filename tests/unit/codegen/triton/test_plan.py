"""Which side of a tensor a program reads along."""

from __future__ import annotations

import pytest

from autofuse import api
from autofuse.codegen.backends.triton.plan import plan
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
