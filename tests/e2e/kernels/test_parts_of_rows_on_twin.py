"""Gradients that are reduced along rows and over them, in one group, on the CPU twin."""

from __future__ import annotations

from typing import Any

import pytest
from gradient_graphs import bias_gradient, extremes, layer_norm_gradient, softmax_gradient

from autofuse import api
from autofuse.codegen.verification import verify_schedule

pytestmark = [pytest.mark.sampled(12), pytest.mark.twin]

F, H, B = "float32", "float16", "bfloat16"
#: Of unknown rows, bias gradients alone have other forms.
MAKES = (layer_norm_gradient, softmax_gradient, extremes)


def check(document: dict[str, Any], target: str, sizes: list[dict[str, int]]) -> api.BuildResult:
    """In checked mode, instructions in a hostile order: every key whose conditions hold, every size."""
    built = api.build(document, target=target)
    assert verify_schedule(built.graph, built.schedule, built.target) == []
    report = api.verify(built, shapes=sizes, check_seed=1)
    assert report.ok, "\n".join(map(str, report.diagnostics))
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    cut = [i for i in impls if i.cut_axes() and i.r_axis is not None]
    assert any(i.tiling.opened.axis in {a.id for _, a in i.cut_axes()} for i in cut)
    return built


@pytest.mark.parametrize("target", ["ascend910b1", "ascend950pr"])
@pytest.mark.parametrize("dtype", [F, H])
@pytest.mark.parametrize("make", MAKES)
def test_any_number_of_rows(make, dtype, target):
    """None, one, a part and its neighbours, a prime number of more rows than cores have parts."""
    rows = [0, 1, 31, 32, 33, 1543]
    check(make("n", 768, dtype), target, [{"n": n} for n in rows])


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("cols", [1, 77, 640])
def test_any_length_of_rows(make, cols):
    sizes = [{"n": n, "m": cols} for n in (0, 1, 65, 317)]
    check(make("n", "m"), "ascend910b1", sizes)


@pytest.mark.parametrize(
    ("make", "rows", "cols", "dtype"),
    [
        (layer_norm_gradient, 2039, 512, F),
        (layer_norm_gradient, 2039, 512, H),
        (layer_norm_gradient, 1549, 768, B),
        (layer_norm_gradient, 4099, 250, F),  # rows that are not whole blocks
        (softmax_gradient, 8191, 128, F),
        (softmax_gradient, 1021, 1000, H),
        (bias_gradient, 8191, 128, F),
    ],
)
def test_known_sizes(make, rows, cols, dtype):
    check(make(rows, cols, dtype), "ascend910b1", [{}])


@pytest.mark.parametrize("make", [*MAKES, bias_gradient])
def test_a_chip_that_copies_whole_blocks(make):
    """And that has no barrier of its own."""
    check(make(2048, 512), "ascend310p", [{}])
