"""Reductions and running sums of blocks in Triton, against NumPy."""

import draws
import numpy as np
import pytest
from extras import needs
from triton_blocks import HEAD, work, write_job

from autofuse.codegen.backends.triton.ops.reductions import (
    accumulator,
    identity,
    reduction,
    running_sum,
)
from autofuse.codegen.backends.triton.ops.spelling import TRITON, TYPES
from autofuse.implgraph.ir.dtypes import BY_NAME, numpy_dtype
from autofuse.implgraph.ops.rows import reductions as rows

pytestmark = [
    pytest.mark.slow,
    needs("torch", "triton"),
]

DTYPES = tuple(d for d in BY_NAME if d not in ("bool", "mask"))
#: Two blocks of a row, of which the second one has a tail.
ROWS, COLUMNS, M, N = 3, 53, 4, 32
JOB = {"sizes": [ROWS, COLUMNS], "constants": {"M": M, "N": N}}
LOAD = """\
@triton.jit
def kernel(x_ptr, y_ptr, rows, columns, M: tl.constexpr, N: tl.constexpr):
    row = tl.arange(0, M)[:, None]
    column = tl.arange(0, N)[None, :]
    place = x_ptr + row * columns + column
    x = tl.load(place, mask=(row < rows) & (column < columns), other={other}).to({type})
    inside = (row < rows) & (column + N < columns)
    z = tl.load(place + N, mask=inside, other={other}).to({type})
"""


def reducing(op, dtype):
    """Each block reduced, and the partial results joined."""
    way = reduction(op, accumulator(dtype))
    lines = [f"a = {way.of('x', 1)}", f"b = {way.of('z', 1)}", f"c = {way.joined('a', 'b')}"]
    lines += [f"d = {way.joined('x', 'z')}", f"d = {way.of('d', 1, keep_dims=True)}"]
    # Both ways to put two blocks together must agree, element for element of integers.
    to = TYPES[dtype.name]
    lines += [f"tl.store(y_ptr + 2 * row, c[:, None].to({to}), mask=row < rows)"]
    lines += [f"tl.store(y_ptr + 2 * row + 1, d.to({to}), mask=row < rows)"]
    return text(op, dtype, lines)


def summing(dtype, exclusive, reverse):
    sums = running_sum("x", exclusive=exclusive, reverse=reverse)
    store = f"tl.store(y_ptr + row * N + column, y.to({TYPES[dtype.name]}), mask=row < rows)"
    return text("Scan", dtype, [f"y = {sums}", store])


def text(op, dtype, lines):
    head = LOAD.format(other=identity(op, dtype), type=TYPES[accumulator(dtype).name])
    body = "".join(f"    {s}\n" for s in lines)
    return "\n\n".join((HEAD, *TRITON.functions(body).values(), head + body))


def data(rng, op, dtype):
    if dtype.kind == "f":
        # A product of a row fits float16.
        low, high = (0.8, 1.2) if op == "ReduceProd" else (-4.0, 2.0)
        return rng.uniform(low, high, (ROWS, COLUMNS)).astype(numpy_dtype(dtype))
    limits = np.iinfo(dtype.name)
    return rng.integers(limits.min, limits.max, (ROWS, COLUMNS), dtype.name, endpoint=True)


def wide(x, dtype):
    return x.astype({"f": np.float64, "i": np.int64, "u": np.uint64}[dtype.kind])


def assert_equal(got, want, dtype, error):
    """Integers modulo their range, floats within an absolute error."""
    if dtype.kind == "f":
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=error)
    else:
        np.testing.assert_array_equal(got, want.astype(dtype.name))


def results(tmp_path, jobs):
    for i, (kernel, dtype, elements, x) in enumerate(jobs):
        ends = {"inputs": [("x", dtype.name)], "outputs": [("y", dtype.name, elements)]}
        write_job(tmp_path / f"{i:03}", kernel, JOB | ends, {"x": x})
    work("run", tmp_path)
    for i, (_, dtype, _, _) in enumerate(jobs):
        yield np.frombuffer((tmp_path / f"{i:03}" / "y.out").read_bytes(), numpy_dtype(dtype))


def unit(dtype):
    """The relative error of one rounding."""
    return {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype.name, 0.0)


@pytest.mark.parametrize("op", sorted(rows.REDUCES))
def test_reductions(op, tmp_path):
    seed = draws.seed()
    rng = np.random.default_rng(seed)
    jobs = []
    for dtype in map(BY_NAME.__getitem__, DTYPES):
        x = data(rng, op, dtype)
        if dtype.kind == "f" and op in ("ReduceMax", "ReduceMin"):
            x[0, 5], x[1, -1] = np.nan, np.nan
        jobs.append((reducing(op, dtype), dtype, 2 * ROWS, x))
    for got, (_, dtype, _, x) in zip(results(tmp_path, jobs), jobs, strict=True):
        values = wide(x, dtype)
        want = rows.reduce_array(op, values, (1,), dtype)
        size = np.abs(values).sum(1) if op == "ReduceSum" else np.abs(want).ravel()
        error = (
            0.0
            if op in ("ReduceMax", "ReduceMin")
            else np.max(size) * (COLUMNS * 2.0**-24 + unit(dtype))
        )
        both = np.repeat(want, 2, axis=1)
        assert_equal(got.reshape(ROWS, 2), both, dtype, error)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums(exclusive, reverse, tmp_path):
    rng = np.random.default_rng(draws.seed())
    jobs = [
        (summing(dtype, exclusive, reverse), dtype, ROWS * N, data(rng, "Scan", dtype))
        for dtype in map(BY_NAME.__getitem__, DTYPES)
    ]
    for got, (_, dtype, _, x) in zip(results(tmp_path, jobs), jobs, strict=True):
        block = wide(x, dtype)[:, :N]
        want = rows.running_sum(block, 1, exclusive, reverse)
        error = np.abs(block).sum(1).max() * (N * 2.0**-24 + unit(dtype)) if unit(dtype) else 0.0
        assert_equal(got.reshape(ROWS, N), want, dtype, error)


def test_an_element_that_is_left_out_leaves_no_trace(tmp_path):
    # Taking the element away from the sum that has it would round: 1 + 1e30 - 1e30 is 0.
    dtype = BY_NAME["float32"]
    x = np.zeros((ROWS, COLUMNS), np.float32)
    x[:, 0], x[:, 1], x[:, 2] = 1.0, 1e30, np.inf
    job = (summing(dtype, True, False), dtype, ROWS * N, x)
    (got,) = results(tmp_path, [job])
    np.testing.assert_array_equal(got.reshape(ROWS, N)[:, :3], [[0.0, 1.0, np.float32(1e30)]] * 3)


def test_blocks_compile_for_a_card(tmp_path):
    for name in ("float32", "int8", "uint64"):
        dtype = BY_NAME[name]
        texts = [reducing(op, dtype) for op in sorted(rows.REDUCES)]
        texts += [summing(dtype, e, r) for e, r in ((False, True), (True, False))]
        for i, kernel in enumerate(texts):
            ends = {"inputs": [("x", name)], "outputs": [("y", name, 0)]}
            write_job(tmp_path / f"{name}_{i}", kernel, JOB | ends, {})
    work("compile", tmp_path)
