"""The meaning of single ops in the interpreter."""

import numpy as np

from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.rewrites.interpret import apply


def test_a_sum_of_many_rounds_at_each_step() -> None:
    half = np.float32(2**-24)  # half of the distance from 1 to the next number
    xs = [np.array([x], np.float32) for x in (1, half, half)]
    assert apply("AddN", xs, {}, BY_NAME["float32"]) == np.float32(1)
    assert apply("AddN", xs[::-1], {}, BY_NAME["float32"]) == np.float32(1 + 2**-23)
