"""Kernels of what lines of English mean, in Triton's interpreter, every element compared with NumPy."""

import pytest
from extras import required

from autofuse import api
from autofuse.clients.kernelgen.defining.sources import describe

pytestmark = required("torch", "triton")


@pytest.mark.triton
@pytest.mark.parametrize(
    "line",
    [
        "softmax over the last axis of x float16 [b, 96], then multiply by mask",
        "layer norm over the last axis of x float16 [n, 37] with gamma and beta",
        "sum over the last two axes of x float32 [a, 3, c], then square root",
    ],
)
def test_a_line_becomes_a_kernel(line: str) -> None:
    report = api.verify(describe(line, target="nvidia-h100").graph, target="nvidia-h100", shapes=2)
    assert report.ok, report
