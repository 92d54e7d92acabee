"""``Kernel.run`` of the native module: tiling and launch in one call, on addresses."""

from __future__ import annotations

import importlib
import threading
from typing import Any

import draws
import numpy as np
import pytest
from twin_graphs import graph

from autofuse import api
from autofuse.machines.twin.run.compile import compile_kernel

pytestmark = pytest.mark.twin


@pytest.fixture(scope="module")
def kernel() -> Any:
    """Exp of a row sum: two dimensions of unknown size, a reduction."""
    document = graph(
        {"x": ("float32", ("m", "n"))},
        [("t", "ReduceSum", ("x",), {"axes": [1]}), ("y", "Exp", ("t",))],
        m={"min": 1, "max": 4096},
        n={"min": 0, "max": 4096},
    )
    built = api.build(document)
    library = compile_kernel(built.files, built.name, opt="-O0")
    return importlib.import_module("autofuse._twin").Kernel(str(library))


def run(kernel: Any, x: np.ndarray, threads: int = 1) -> np.ndarray:
    y = np.full(x.shape[:1], -1.0, np.float32)
    assert kernel.run(x.shape, [x.ctypes.data, y.ctypes.data], threads) == (0, "")
    return y


def test_sizes_that_come_again(kernel: Any) -> None:
    """More sizes than tilings are kept, each of them twice."""
    rng = draws.rng()
    shapes = [(int(m), int(n)) for m, n in rng.integers(1, 70, (20, 2))] + [(3, 0), (1, 1)]
    for shape in shapes * 2:
        x = rng.standard_normal(shape, np.float32) / 8
        np.testing.assert_allclose(run(kernel, x), np.exp(x.sum(1)), rtol=1e-5)


def test_a_refusal_has_a_status_and_a_text(kernel: Any) -> None:
    for _ in range(2):  # also when it is remembered
        status, text = kernel.run((5000, 1), [0, 0], 1)
        assert status != 0
        assert "m" in text


def test_accesses_are_checked_where_sizes_are_given(kernel: Any) -> None:
    x, y = np.ones((3, 8), np.float32), np.empty(3, np.float32)
    pointers = [x.ctypes.data, y.ctypes.data]
    assert kernel.run(x.shape, pointers, 1, [x.nbytes, y.nbytes], 1) == (0, "")
    for sizes, text in (([x.nbytes - 4, y.nbytes], "input 0"), ([x.nbytes, 8], "output 0")):
        status, found = kernel.run(x.shape, pointers, 1, sizes, 1)
        assert status != 0
        assert "gm-oob" in found
        assert text in found
    status, found = kernel.run(x.shape, pointers, 1, [x.nbytes, y.nbytes], 2)  # y is only read
    assert status != 0
    assert "input 1" in found
    assert kernel.run(x.shape, pointers) == (0, "")
    with pytest.raises(ValueError, match="a size for every pointer"):
        kernel.run(x.shape, pointers, 1, [x.nbytes], 1)


def test_outputs_that_share_memory_are_refused(kernel: Any) -> None:
    memory = np.ones(32, np.float32)
    at, x = memory.ctypes.data, 24 * 4
    for place, n in ((0, 3), (80, 3), (92, 3), (40, 3)):
        status, found = kernel.run((3, 8), [at, at + place], 1, [x, 4 * n], 1)
        assert status != 0
        assert "gm-overlap" in found
        assert "input 0 and output 0 share memory" in found
    assert (memory == 1).all()
    assert kernel.run((3, 8), [at, at + x], 1, [x, 12], 1) == (0, "")


def test_too_many_symbols(kernel: Any) -> None:
    with pytest.raises(ValueError, match="at most 64"):
        kernel.run((1,) * 65, [0, 0], 1)


def test_threads_with_different_sizes(kernel: Any) -> None:
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            x = rng.standard_normal(tuple(rng.integers(1, 40, 2)), np.float32) / 8
            try:
                np.testing.assert_allclose(run(kernel, x, 2), np.exp(x.sum(1)), rtol=1e-5)
            except AssertionError as e:
                wrong.append(str(e))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
